#include "clients.hpp"

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDAGuard.h>

namespace rmm_rs_torch {

rmm_rs_client const* clients::of(c10::DeviceIndex device)
{
  auto const* const client = find(device);
  return client != nullptr ? client : make(device);
}

rmm_rs_client const* clients::find(c10::DeviceIndex device) const noexcept
{
  auto const index = static_cast<std::size_t>(device);
  return index < maximum ? clients_[index].load(std::memory_order_acquire) : nullptr;
}

std::vector<c10::DeviceIndex> clients::devices() const
{
  std::vector<c10::DeviceIndex> found;
  for (std::size_t index = 0; index < maximum; ++index) {
    auto const device = static_cast<c10::DeviceIndex>(index);
    if (find(device) != nullptr) { found.push_back(device); }
  }
  return found;
}

rmm_rs_client const* clients::make(c10::DeviceIndex device)
{
  auto const index = static_cast<std::size_t>(device);
  TORCH_CHECK(index < maximum, "rmm-rs: there is no device ", static_cast<int>(device));
  c10::cuda::CUDAGuard const guard{device};
  std::lock_guard const lock{mutex_};
  if (auto const* const client = find(device); client != nullptr) { return client; }
  auto const memory           = make_(device);
  rmm_rs_client const* client = nullptr;
  check(engine->rmm_rs_client_new(device, memory.get(), &client));
  auto const fraction = c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig::
    per_process_memory_fraction();
  if (fraction < 1.0) { check(engine->rmm_rs_client_set_memory_fraction(client, fraction)); }
  clients_[index].store(client, std::memory_order_release);
  return client;
}

bool settle(rmm_rs_client const* client)
{
  auto const status = engine->rmm_rs_client_settle(client, true);
  if (status != RMM_RS_NOT_READY) { check(status); }
  return status == RMM_RS_OK;
}

resource clients::memory_of(c10::DeviceIndex device)
{
  rmm_rs_resource const* memory = nullptr;
  check(engine->rmm_rs_client_resource(of(device), &memory));
  return resource{memory};
}

resource clients::memory_of(rmm_rs_client_block const& block)
{
  if (block.pool == nullptr) { return memory_of(static_cast<c10::DeviceIndex>(block.device)); }
  engine->rmm_rs_resource_retain(block.pool);
  return resource{block.pool};
}

}  // namespace rmm_rs_torch
