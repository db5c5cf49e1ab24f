// Launches of kernels.
#include "default_stream.hpp"
#include "kernels.hpp"

using stand_in::in_context;

namespace {

cudaError_t launch(void const* host_function,
                   dim3 grid,
                   dim3 block,
                   void** arguments,
                   std::size_t shared_bytes,
                   cudaStream_t stream) noexcept
{
  return in_context([=] {
    CUfunction function{};
    auto const code = stand_in::kernel(host_function, &function);
    if (code != CUDA_SUCCESS) { return code; }
    return cuLaunchKernel(function,
                          grid.x,
                          grid.y,
                          grid.z,
                          block.x,
                          block.y,
                          block.z,
                          static_cast<unsigned>(shared_bytes),
                          meant(stream),
                          arguments,
                          nullptr);
  });
}

}  // namespace

#ifdef PER_THREAD_DEFAULT_STREAM
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif

extern "C" {

cudaError_t cudaLaunchKernel(void const* host_function,
                             dim3 grid,
                             dim3 block,
                             void** arguments,
                             std::size_t shared_bytes,
                             cudaStream_t stream)
{
  return launch(host_function, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config,
                                void const* host_function,
                                void** arguments)
{
  if (config == nullptr) { return stand_in::record(cudaErrorInvalidValue); }
  return launch(host_function,
                config->gridDim,
                config->blockDim,
                arguments,
                config->dynamicSmemBytes,
                config->stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel,
                               dim3 grid,
                               dim3 block,
                               void** arguments,
                               std::size_t shared_bytes,
                               cudaStream_t stream)
{
  return launch(kernel, grid, block, arguments, shared_bytes, stream);
}

}  // extern "C"
