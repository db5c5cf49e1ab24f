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

/// Makes a pool for a private one of PyTorch's, over the upstream of the pool below `memory`.
/// Throws if there is no pool. The device is current.
resource make_private_pool(resource const& memory);

/// The same over memory that `foreign` allocates on the device, which the pool keeps alive.
resource make_foreign_pool(c10::DeviceIndex device, std::shared_ptr<cuda_allocator> foreign);

/// The segments of a pool by address. None if the resource is no pool.
std::vector<segment> segments_of(resource const& pool);

/// What a pool had allocated where, at one time.
class checkpoint : public c10::cuda::CUDACachingAllocator::AllocatorState {
 public:
  /// Throws: the engine has no checkpoints yet.
  explicit checkpoint(resource const& pool);
  /// Makes the pool's blocks those of the checkpoint.
  c10::cuda::CUDACachingAllocator::CheckpointDelta restore(c10::DeviceIndex device) const;
};

}  // namespace rmm_rs_torch
