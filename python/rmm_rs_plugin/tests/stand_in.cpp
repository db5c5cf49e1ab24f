// What RMM's Python modules call of its library that calls the CUDA runtime: the resource over cudaMalloc, which
// counts the calls in which the thread had Python's lock, and allocations without a stream.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <rmm/error.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/detail/callback_memory_resource_impl.hpp>
#include <rmm/mr/detail/limiting_resource_adaptor_impl.hpp>
#include <rmm/mr/detail/logging_resource_adaptor_impl.hpp>
#include <rmm/mr/detail/statistics_resource_adaptor_impl.hpp>
#include <rmm/mr/detail/tracking_resource_adaptor_impl.hpp>
#include <rmm/mr/per_device_resource.hpp>

#include <atomic>
#include <cstddef>
#include <optional>

namespace {

std::atomic<int> calls{0};
std::atomic<int> calls_with_lock{0};

void count()
{
  static auto const has_lock = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  calls.fetch_add(1, std::memory_order_relaxed);
  if (has_lock() != 0) { calls_with_lock.fetch_add(1, std::memory_order_relaxed); }
}

}  // namespace

extern "C" {
int stand_in_calls() { return calls.load(); }
int stand_in_calls_with_lock() { return calls_with_lock.load(); }
}

RMM_NAMESPACE_BEGIN
namespace mr {

void* cuda_memory_resource::allocate_sync(std::size_t bytes, std::size_t)
{
  count();
  void* pointer{};
  switch (cudaMalloc(&pointer, bytes)) {
    case cudaSuccess: return pointer;
    case cudaErrorMemoryAllocation: throw rmm::out_of_memory{"the stand-in has no memory left"};
    default: throw rmm::bad_alloc{"the stand-in cannot allocate"};
  }
}

void cuda_memory_resource::deallocate_sync(void* pointer, std::size_t, std::size_t) noexcept
{
  count();
  cudaFree(pointer);
}

void* cuda_memory_resource::allocate(cuda::stream_ref, std::size_t bytes, std::size_t alignment)
{
  return allocate_sync(bytes, alignment);
}

void cuda_memory_resource::deallocate(cuda::stream_ref,
                                      void* pointer,
                                      std::size_t bytes,
                                      std::size_t alignment) noexcept
{
  deallocate_sync(pointer, bytes, alignment);
}

namespace detail {

// As in RMM: in the order of the default stream, which is waited for.
#define ALLOCATE_SYNC(implementation)                                                   \
  void* implementation::allocate_sync(std::size_t bytes, std::size_t alignment)         \
  {                                                                                     \
    auto* const pointer = allocate(cuda::stream_ref{cudaStream_t{}}, bytes, alignment); \
    cudaStreamSynchronize(cudaStream_t{});                                              \
    return pointer;                                                                     \
  }
ALLOCATE_SYNC(callback_memory_resource_impl)
ALLOCATE_SYNC(limiting_resource_adaptor_impl)
ALLOCATE_SYNC(logging_resource_adaptor_impl)
ALLOCATE_SYNC(statistics_resource_adaptor_impl)
ALLOCATE_SYNC(tracking_resource_adaptor_impl)
#undef ALLOCATE_SYNC

}  // namespace detail

bool cuda_memory_resource::operator==(cuda_memory_resource const&) const noexcept { return true; }
bool cuda_memory_resource::operator!=(cuda_memory_resource const&) const noexcept { return false; }

}  // namespace mr
RMM_NAMESPACE_END

// A user in C++, such as libcudf, that keeps the current device's resource and no Python object.
namespace {

std::optional<cuda::mr::any_resource<cuda::mr::device_accessible>> kept;
cuda::stream_ref const default_stream{cudaStream_t{}};

}  // namespace

extern "C" {
void stand_in_keep() { kept.emplace(rmm::mr::get_current_device_resource_ref()); }
void stand_in_drop() { kept.reset(); }
void* stand_in_allocate(std::size_t bytes) { return kept->allocate(default_stream, bytes, 256); }
void stand_in_deallocate(void* pointer, std::size_t bytes)
{
  kept->deallocate(default_stream, pointer, bytes, 256);
}
}
