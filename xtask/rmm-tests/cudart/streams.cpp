// Streams, events and graphs, as far as no default stream is meant by a null handle: those
// functions stand in default_stream.cpp.
#include "runtime.hpp"

using stand_in::in_context;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream)
{
  return in_context([=] { return cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags)
{
  return in_context([=] { return cuStreamCreate(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority)
{
  return in_context([=] { return cuStreamCreateWithPriority(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  return in_context([=] {
    // The driver takes the handles of default streams for its own.
    bool const is_default =
      stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
    return is_default ? CUDA_ERROR_INVALID_HANDLE : cuStreamDestroy(stream);
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode)
{
  auto* const native = reinterpret_cast<CUstreamCaptureMode*>(mode);
  return in_context([=] { return cuThreadExchangeStreamCaptureMode(native); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event)
{
  return in_context([=] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags)
{
  return in_context([=] { return cuEventCreate(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  return in_context([=] { return cuEventDestroy(event); });
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  return in_context([=] { return cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
  return in_context([=] { return cuEventSynchronize(event); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end)
{
  return in_context([=] { return cuEventElapsedTime(milliseconds, start, end); });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable,
                                 cudaGraph_t graph,
                                 unsigned long long flags)
{
  return in_context([=] { return cuGraphInstantiate(executable, graph, flags); });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                         cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData* edges,
                                         std::size_t* count)
{
  auto* const data = reinterpret_cast<CUgraphEdgeData*>(edges);
  return in_context([=] { return cuGraphNodeGetDependencies(node, dependencies, data, count); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  return in_context([=] { return cuGraphDestroy(graph); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
  return in_context([=] { return cuGraphExecDestroy(executable); });
}

}  // extern "C"
