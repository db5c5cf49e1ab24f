// What the libraries of PyTorch need of the CUDA runtime beside what xtask/rmm-tests/cudart has, so
// that they load. Most of it is refused. PyTorch's kernels do nothing, as the software device has
// none of them: programs look at memory that was copied.
#include <cuda_runtime_api.h>

#include <cstddef>

#define REFUSED(name)                             \
  int refused_##name() asm(#name);                \
  int refused_##name() { return cudaErrorNotSupported; }

extern "C" {

void __cudaRegisterVar() {}

cudaError_t cudaLaunchKernel(void const*, dim3, dim3, void**, std::size_t, cudaStream_t)
{
  return cudaSuccess;
}

// Compilers of CUDA 13 call this one, with a kernel in the place of the function.
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t)
{
  return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const*, void const*, void**)
{
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable,
                                          cudaGraph_t graph,
                                          unsigned long long flags)
{
  return cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t, cudaGraphNode_t*, std::size_t* count)
{
  *count = 1;
  return cudaSuccess;
}

REFUSED(cudaFuncGetAttributes)
REFUSED(cudaFuncSetAttribute)
REFUSED(cudaGetSymbolAddress)
REFUSED(cudaGraphAddNode)
REFUSED(cudaGraphConditionalHandleCreate)
REFUSED(cudaGraphDebugDotPrint)
REFUSED(cudaGraphRetainUserObject)
REFUSED(cudaIpcGetEventHandle)
REFUSED(cudaIpcOpenEventHandle)
REFUSED(cudaKernelSetAttributeForDevice)
REFUSED(cudaLaunchCooperativeKernel)
REFUSED(cudaLibraryGetGlobal)
REFUSED(cudaLibraryGetKernel)
REFUSED(cudaLibraryGetKernelCount)
REFUSED(cudaLibraryGetManaged)
REFUSED(cudaLibraryGetUnifiedFunction)
REFUSED(cudaLibraryLoadData)
REFUSED(cudaLibraryLoadFromFile)
REFUSED(cudaLibraryUnload)
REFUSED(cudaMemcpy2DAsync)
REFUSED(cudaMemcpyToSymbol)
REFUSED(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSED(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
REFUSED(cudaProfilerStart)
REFUSED(cudaProfilerStop)
REFUSED(cudaStreamAddCallback)
REFUSED(cudaStreamBeginCaptureToGraph)
REFUSED(cudaStreamUpdateCaptureDependencies)
REFUSED(cudaUserObjectCreate)
REFUSED(cudaUserObjectRelease)

}  // extern "C"
