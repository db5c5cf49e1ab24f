// The functions of the allocator for graphs and `torch.cuda.MemPool`.
#include "allocator.hpp"

#include "captures.hpp"
#include "snapshot.hpp"

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
  return std::make_shared<checkpoint>(memory_of_pool(device, id));
}

c10::cuda::CUDACachingAllocator::CheckpointDelta allocator::setCheckpointPoolState(
  c10::DeviceIndex device, std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state)
{
  auto const* const own = dynamic_cast<checkpoint const*>(state.get());
  TORCH_CHECK(own != nullptr, "rmm-rs: the checkpoint is of another allocator");
  return own->restore(device);
}

#if TORCH_VERSION_MINOR >= 13
void allocator::markCaptureBegin(c10::DeviceIndex) { announce_capture(); }

void allocator::markCaptureEnd(c10::DeviceIndex) { withdraw_capture(); }
#endif

resource allocator::memory_of_pool(c10::DeviceIndex device, c10::MempoolId_t id)
{
  auto const pool = pools_.find(device, id);
  TORCH_CHECK(pool != nullptr, "rmm-rs: there is no such private pool");
  return pool->memory(clients_);
}

}  // namespace rmm_rs_torch
