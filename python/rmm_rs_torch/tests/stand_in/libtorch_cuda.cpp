// What the modules call of libtorch_cuda.so, and what the stand-in for the package `torch` does.
#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>
#include <string>

namespace c10::cuda::_internal {
// Exported, and in no header: PyTorch's hooks call it.
C10_CUDA_API void setHasPrimaryContext(bool (*function)(c10::DeviceIndex));
}  // namespace c10::cuda::_internal

namespace torch::cuda::CUDAPluggableAllocator {

using allocator_pointer = std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator>;

/// As PyTorch's: an allocator that was used is not replaced.
__attribute__((visibility("default"))) void changeCurrentAllocator(allocator_pointer const& next)
{
  TORCH_CHECK(!c10::cuda::CUDACachingAllocator::get()->initialized(), "used already");
  c10::cuda::CUDACachingAllocator::allocator.store(next.get());
  // PyTorch keeps one reference for ever.
  new allocator_pointer{next};
}

}  // namespace torch::cuda::CUDAPluggableAllocator

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED char const* stand_in_backend()
{
  static std::string name;
  name = c10::cuda::CUDACachingAllocator::get()->name();
  return name.c_str();
}

EXPORTED void stand_in_init()
{
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  c10::cuda::CUDACachingAllocator::get()->init(2);
}

EXPORTED void* stand_in_allocate(std::size_t bytes)
{
  return c10::GetAllocator(c10::DeviceType::CUDA)->raw_allocate(bytes);
}

EXPORTED void stand_in_free(void* pointer)
{
  c10::GetAllocator(c10::DeviceType::CUDA)->raw_deallocate(pointer);
}
