// What the libraries of PyTorch need of the CUDA runtime beside what xtask/rmm-tests/cudart has, so
// that they load: kernels are not launched on the software device, and most of this is refused.
#include <cuda_runtime_api.h>

#include <cstddef>

#define REFUSED(name)                             \
  int refused_##name() asm(#name);                \
  int refused_##name() { return cudaErrorNotSupported; }

extern "C" {

void __cudaRegisterVar() {}

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
REFUSED(cudaGraphRetainUserObject)
REFUSED(cudaIpcGetEventHandle)
REFUSED(cudaIpcOpenEventHandle)
REFUSED(cudaKernelSetAttributeForDevice)
REFUSED(cudaLaunchCooperativeKernel)
REFUSED(cudaLibraryGetKernel)
REFUSED(cudaLibraryLoadData)
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
