// Pools of rmm-rs: the one below a resource, those that private pools are made of, and their
// checkpoints.
#pragma once

#include "engine.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace rmm_rs_torch {

using cuda_allocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;

/// A range of memory that a pool has taken from its upstream.
struct segment {
  std::uintptr_t begin;
  std::size_t bytes;
  void* stream;
};

/// The pool that a resource is, or the first one below it. None if there is no pool.
resource pool_below(resource memory);

/// The statistics of a pool. All zero without one.
rmm_rs_pool_statistics statistics_of(resource const& pool);

/// Makes a pool for a private one of PyTorch's, over the upstream of the pool below `memory`.
/// Throws if there is no pool. The device is current.
resource make_private_pool(resource const& memory);

/// The same for the memory of a tag, in which graphs allocate nothing: what is free returns to the
/// driver.
resource make_tag_pool(resource const& memory);

/// The same over memory that `foreign` allocates on the device, which the pool keeps alive.
resource make_foreign_pool(c10::DeviceIndex device, std::shared_ptr<cuda_allocator> foreign);

/// The segments of a pool by address. None if the resource is no pool.
std::vector<segment> segments_of(resource const& pool);

/// Which blocks of a private pool were allocated at one time.
class checkpoint : public c10::cuda::CUDACachingAllocator::AllocatorState {
 public:
  checkpoint(rmm_rs_client const* client, resource const& pool);
  ~checkpoint() override;
  checkpoint(checkpoint const&) = delete;

  /// Makes exactly these blocks allocated. What is free afterwards belongs to the stream, and all
  /// work with the pool's memory comes before in its order. The new owners of the blocks free them
  /// by `deleter`.
  [[nodiscard]] c10::cuda::CUDACachingAllocator::CheckpointDelta restore(
    c10::DeviceIndex device, cudaStream_t stream, c10::DeleterFnPtr deleter) const;
  [[nodiscard]] resource const& pool() const noexcept { return pool_; }

 private:
  resource pool_;
  rmm_rs_checkpoint const* handle_{nullptr};
};

}  // namespace rmm_rs_torch
