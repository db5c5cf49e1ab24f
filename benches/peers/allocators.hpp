// The allocators that are timed, each behind the interface that its users call.
#pragma once

#include <cub/util_allocator.cuh>
#include <cuda_runtime.h>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/fixed_size_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/resource_ref.hpp>

#ifdef PEERS_WITH_TORCH
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include "ops.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace peers {

inline void check(cudaError_t status)
{
  if (status != cudaSuccess) { throw std::runtime_error{cudaGetErrorString(status)}; }
}

struct allocator {
  std::function<void*(std::size_t, cudaStream_t)> allocate;
  std::function<void(void*, std::size_t, cudaStream_t)> deallocate;
  // Bytes taken from the driver at most so far; empty where the allocator does not tell.
  std::function<std::size_t()> reserved;
};

// What a pool starts with.
enum class start {
  full,   // 16 GiB, so that it does not grow while it is timed
  empty,  // nothing: it grows
};

constexpr std::size_t pool_bytes = std::size_t{16} << 30;

// Work that some allocators are left out of.
enum class serves {
  everything,
  pairs,             // one block size
  all_but_handoff,   // frees on the stream of the allocation alone
  little,            // so slow that the lists are shortened
};

struct kind {
  std::string name;
  serves work;
  std::function<allocator(start)> make;
};

// Any RMM resource, through the type that forgets which.
template <typename Resource>
allocator of_resource(Resource resource, std::function<std::size_t()> reserved = {})
{
  using any = cuda::mr::any_resource<cuda::mr::device_accessible>;
  auto held = std::make_shared<any>(std::move(resource));
  return {
    [held](std::size_t size, cudaStream_t stream) {
      return held->allocate(cuda::stream_ref{stream}, size, alignment);
    },
    [held](void* block, std::size_t size, cudaStream_t stream) {
      held->deallocate(cuda::stream_ref{stream}, block, size, alignment);
    },
    std::move(reserved)};
}

inline allocator make_cub(start)
{
  // Powers of two from 256 B to 2 GiB, all of which are kept: larger blocks go to the driver each time.
  auto held = std::make_shared<cub::CachingDeviceAllocator>(2, 8, 31, static_cast<std::size_t>(-1));
  return {[held](std::size_t size, cudaStream_t stream) {
            void* block = nullptr;
            check(held->DeviceAllocate(&block, size, stream));
            return block;
          },
          [held](void* block, std::size_t, cudaStream_t) { check(held->DeviceFree(block)); },
          {}};
}

#ifdef PEERS_WITH_TORCH
inline allocator make_torch(start)
{
  namespace torch_allocator = c10::cuda::CUDACachingAllocator;
  static bool const initialized = [] {
    torch_allocator::init(1);
    return true;
  }();
  (void)initialized;
  // There is one in a process: what earlier work left is given back.
  check(cudaDeviceSynchronize());
  torch_allocator::emptyCache();
  torch_allocator::resetPeakStats(0);
  return {[](std::size_t size, cudaStream_t stream) {
            return torch_allocator::raw_alloc_with_stream(size, stream);
          },
          [](void* block, std::size_t, cudaStream_t) { torch_allocator::raw_delete(block); },
          [] {
            return static_cast<std::size_t>(torch_allocator::getDeviceStats(0).reserved_bytes[0].peak);
          }};
}
#endif

inline std::vector<kind> const& kinds()
{
  using namespace rmm::mr;
  static std::vector<kind> const all{
    {"pool",
     serves::everything,
     [](start from) {
       pool_memory_resource pool{cuda_memory_resource{}, from == start::full ? pool_bytes : 0};
       return of_resource(pool, [pool] { return pool.pool_size(); });
     }},
    {"arena",
     serves::everything,
     [](start) { return of_resource(arena_memory_resource{cuda_memory_resource{}, pool_bytes}); }},
    {"binning",
     serves::everything,
     [](start) {
       pool_memory_resource pool{cuda_memory_resource{}, pool_bytes};
       return of_resource(binning_memory_resource{pool, 18, 22});
     }},
    {"fixed",
     serves::pairs,
     [](start) {
       return of_resource(fixed_size_memory_resource{cuda_memory_resource{}, 1 << 20, 4096});
     }},
    {"cuda_async",
     serves::everything,
     [](start) { return of_resource(cuda_async_memory_resource{pool_bytes}); }},
    {"cuda", serves::little, [](start) { return of_resource(cuda_memory_resource{}); }},
    {"cub", serves::all_but_handoff, make_cub},
#ifdef PEERS_WITH_TORCH
    {"torch", serves::everything, make_torch},
#endif
  };
  return all;
}

}  // namespace peers
