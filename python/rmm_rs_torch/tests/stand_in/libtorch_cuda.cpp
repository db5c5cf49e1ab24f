// What the modules call of libtorch_cuda.so, and what the stand-in for the package `torch` does.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/headeronly/version.h>

#include <cstdint>
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

EXPORTED bool stand_in_set_device(int device) { return cudaSetDevice(device) == cudaSuccess; }

EXPORTED int stand_in_current_device() { return c10::cuda::current_device(); }

/// Null if it throws.
EXPORTED void* stand_in_allocate(std::size_t bytes)
{
  try {
    return c10::GetAllocator(c10::DeviceType::CUDA)->raw_allocate(bytes);
  } catch (c10::Error const&) {
    return nullptr;
  }
}

EXPORTED void stand_in_free(void* pointer)
{
  c10::GetAllocator(c10::DeviceType::CUDA)->raw_deallocate(pointer);
}

EXPORTED void stand_in_empty_cache() { c10::cuda::CUDACachingAllocator::get()->emptyCache(); }

EXPORTED bool stand_in_copy(void* to, void const* from, std::size_t bytes)
{
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault) == cudaSuccess;
}

EXPORTED std::size_t stand_in_free_memory()
{
  std::size_t free  = 0;
  std::size_t total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

/// A capture to a private pool, as PyTorch 2.13 and newer make it.
EXPORTED void stand_in_begin_capture(std::uint64_t first, std::uint64_t second)
{
  auto& allocator   = *c10::cuda::CUDACachingAllocator::get();
  auto const stream = c10::cuda::getStreamFromPool();
  c10::cuda::setCurrentCUDAStream(stream);
  allocator.beginAllocateToPool(0, {first, second}, [](cudaStream_t asked) {
    auto status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(asked, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusActive;
  });
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream.stream(), cudaStreamCaptureModeRelaxed));
#if TORCH_VERSION_MINOR >= 13
  allocator.markCaptureBegin(0);
#endif
}

EXPORTED void stand_in_end_capture(std::uint64_t first, std::uint64_t second)
{
  auto& allocator   = *c10::cuda::CUDACachingAllocator::get();
  cudaGraph_t graph = nullptr;
  C10_CUDA_CHECK(cudaStreamEndCapture(c10::cuda::getCurrentCUDAStream(0).stream(), &graph));
#if TORCH_VERSION_MINOR >= 13
  allocator.markCaptureEnd(0);
#endif
  allocator.endAllocateToPool(0, {first, second});
  C10_CUDA_CHECK(cudaGraphDestroy(graph));
  c10::cuda::setCurrentCUDAStream(c10::cuda::getDefaultCUDAStream(0));
}
