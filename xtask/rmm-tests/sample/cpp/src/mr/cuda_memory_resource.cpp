// `cudaMalloc` and `cudaFree`.
#include <rmm/mr/cuda_memory_resource.hpp>

#include <small_rmm/try.hpp>

RMM_NAMESPACE_BEGIN
namespace mr {

void* cuda_memory_resource::allocate_sync(std::size_t bytes, std::size_t)
{
  void* pointer{};
  small_rmm::check_allocation(cudaMalloc(&pointer, bytes));
  return pointer;
}

void cuda_memory_resource::deallocate_sync(void* ptr, std::size_t, std::size_t) noexcept
{
  cudaFree(ptr);
}

void* cuda_memory_resource::allocate(cuda::stream_ref, std::size_t bytes, std::size_t alignment)
{
  return allocate_sync(bytes, alignment);
}

void cuda_memory_resource::deallocate(cuda::stream_ref,
                                      void* ptr,
                                      std::size_t bytes,
                                      std::size_t alignment) noexcept
{
  deallocate_sync(ptr, bytes, alignment);
}

bool cuda_memory_resource::operator==(cuda_memory_resource const&) const noexcept { return true; }
bool cuda_memory_resource::operator!=(cuda_memory_resource const&) const noexcept { return false; }

}  // namespace mr
RMM_NAMESPACE_END
