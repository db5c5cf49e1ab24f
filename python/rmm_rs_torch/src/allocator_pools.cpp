// The functions of the allocator for graphs and `torch.cuda.MemPool`.
#include "allocator.hpp"

#include "captures.hpp"
#include "snapshot.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

namespace rmm_rs_torch {

void allocator::beginAllocateToPool(c10::DeviceIndex device,
                                    c10::MempoolId_t id,
                                    std::function<bool(cudaStream_t)> filter)
{
  // Of the device's client no call makes one while a stream is captured.
  clients_.of(device);
  auto pool = pools_.create_or_retain(device, id);
  try {
    routes_.begin(device, id, std::move(filter), std::move(pool));
  } catch (...) {
    pools_.release(device, id);
    throw;
  }
}

void allocator::endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t id)
{
  routes_.end(device, id);
}

void allocator::releasePool(c10::DeviceIndex device, c10::MempoolId_t id)
{
  auto const uses = pools_.release(device, id);
  routes_.drop_stale(device, id, uses);
}

int allocator::getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t id)
{
  return pools_.uses(device, id);
}

void allocator::createOrIncrefPool(c10::DeviceIndex device,
                                   c10::MempoolId_t id,
                                   std::shared_ptr<cuda_allocator> foreign)
{
  clients_.of(device);
  pools_.create_or_retain(device, id, std::move(foreign));
}

void allocator::setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t id, bool use_on_oom)
{
  pools_.set_serves_shortages(device, id, use_on_oom);
}

void allocator::setNoSplit(c10::DeviceIndex device, c10::MempoolId_t id)
{
  pools_.set_no_split(device, id);
}

bool allocator::checkPoolLiveAllocations(c10::DeviceIndex device,
                                         c10::MempoolId_t id,
                                         std::unordered_set<void*> const& expected)
{
  auto const pool = pools_.find(device, id);
  TORCH_CHECK(pool != nullptr, "rmm-rs: there is no such private pool");
  auto const memory = pool->memory_if_made();
  if (!memory) { return expected.empty(); }
  std::size_t live  = 0;
  auto const blocks = blocks_of(clients_.of(device), memory.get());
  return std::all_of(blocks.begin(), blocks.end(), [&](rmm_rs_client_block const& block) {
           live += block.is_pending == 0 ? 1 : 0;
           return block.is_pending != 0 || expected.count(block.pointer) != 0;
         }) && live == expected.size();
}

std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> allocator::getCheckpointState(
  c10::DeviceIndex device, c10::MempoolId_t id)
{
  auto const memory        = memory_of_pool(device, id);
  auto const* const client = clients_.of(device);
  // What waits for streams is neither allocated nor free. If it is of this pool, and a capture goes
  // on, the checkpoint is refused.
  (void)settle(client);
  return std::make_shared<checkpoint>(client, memory);
}

c10::cuda::CUDACachingAllocator::CheckpointDelta allocator::setCheckpointPoolState(
  c10::DeviceIndex device, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state)
{
  auto const* const own = dynamic_cast<checkpoint const*>(state.get());
  TORCH_CHECK(own != nullptr, "rmm-rs: the checkpoint is of another allocator");
  auto const pool = pools_.find(device, own->pool().get());
  TORCH_CHECK(pool != nullptr && pool == pools_.find(device, pool->id()),
              "rmm-rs: the private pool of the checkpoint is gone");
  auto const* const client = clients_.of(device);
  (void)settle(client);
  auto const streams = pool->streams();
  if (streams.are_several) {
    // Then free memory of all of them becomes that of one.
    captures_held_back const held;
    TORCH_CHECK(held, "rmm-rs: a pool that has served several streams cannot be restored while a "
                      "stream is captured");
    c10::cuda::CUDAGuard const guard{device};
    C10_CUDA_CHECK(cudaDeviceSynchronize());
  }
  std::vector<rmm_rs_client_block> before;
  if (history_.wants_frees()) { before = blocks_of(client, own->pool().get()); }
  auto delta = own->restore(device, streams.last, raw_deleter());
  for (auto* const freed : delta.ptrs_freed) {
    auto const is_same = [freed](auto const& block) { return block.get() == freed; };
    if (std::none_of(delta.dataptrs_allocd.begin(), delta.dataptrs_allocd.end(), is_same)) {
      exported_.forget(freed);
    }
  }
  if (history_.wants_frees()) { record_restore(before, blocks_of(client, own->pool().get())); }
  return delta;
}

void allocator::record_restore(std::vector<rmm_rs_client_block> const& before,
                               std::vector<rmm_rs_client_block> const& now)
{
  for (auto const& block : before) {
    history_.freed(traced(block), history_.gather(caching::RecordContext::ALL), false);
  }
  for (auto const& block : now) {
    history_.allocated(traced(block), history_.gather(caching::RecordContext::STATE));
  }
}

#if TORCH_VERSION_MINOR >= 13
void allocator::markCaptureBegin(c10::DeviceIndex device)
{
  announce_capture();
  routes_.capture_has_begun(device);
}

void allocator::markCaptureEnd(c10::DeviceIndex) { withdraw_capture(); }
#endif

resource allocator::memory_of_pool(c10::DeviceIndex device, c10::MempoolId_t id)
{
  auto const pool = pools_.find(device, id);
  TORCH_CHECK(pool != nullptr, "rmm-rs: there is no such private pool");
  return pool->memory(clients_);
}

}  // namespace rmm_rs_torch
