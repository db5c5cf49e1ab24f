// Allocations, streams, events and lookups that may name a default stream by a null handle.
#include "default_stream.hpp"

using stand_in::address;
using stand_in::in_context;
using stand_in::record;

extern "C" {

cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t stream)
{
  auto* const device = reinterpret_cast<CUdeviceptr*>(out);
  return in_context([=] { return cuMemAllocAsync(device, bytes, meant(stream)); });
}

cudaError_t cudaMallocFromPoolAsync(void** out,
                                    std::size_t bytes,
                                    cudaMemPool_t pool,
                                    cudaStream_t stream)
{
  auto* const device = reinterpret_cast<CUdeviceptr*>(out);
  return in_context([=] { return cuMemAllocFromPoolAsync(device, bytes, pool, meant(stream)); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream)
{
  return in_context([=] { return cuMemFreeAsync(address(pointer), meant(stream)); });
}

cudaError_t cudaMemPrefetchAsync(void const* pointer,
                                 std::size_t bytes,
                                 cudaMemLocation place,
                                 unsigned flags,
                                 cudaStream_t stream)
{
  auto const target = stand_in::location(place);
  return in_context(
    [=] { return cuMemPrefetchAsync(address(pointer), bytes, target, flags, meant(stream)); });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id)
{
  return in_context([=] { return cuStreamGetId(meant(stream), id); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags)
{
  return in_context([=] { return cuStreamGetFlags(meant(stream), flags); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority)
{
  return in_context([=] { return cuStreamGetPriority(meant(stream), priority); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device)
{
  return in_context([=] {
    CUcontext context{};
    if (auto const code = cuStreamGetCtx(meant(stream), &context); code != CUDA_SUCCESS) {
      return code;
    }
    if (auto const code = cuCtxPushCurrent(context); code != CUDA_SUCCESS) { return code; }
    auto const code = cuCtxGetDevice(device);
    cuCtxPopCurrent(&context);
    return code;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  return in_context([=] { return cuStreamSynchronize(meant(stream)); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
  return in_context([=] { return cuStreamQuery(meant(stream)); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
  return in_context([=] { return cuStreamWaitEvent(meant(stream), event, flags); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  return in_context([=] { return cuEventRecord(event, meant(stream)); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
  return in_context([=] { return cuEventRecordWithFlags(event, meant(stream), flags); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data)
{
  return in_context([=] { return cuLaunchHostFunc(meant(stream), function, data); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status)
{
  auto* const native = reinterpret_cast<CUstreamCaptureStatus*>(status);
  return in_context([=] { return cuStreamIsCapturing(meant(stream), native); });
}

// The software driver knows of the status alone: there is no graph yet, and no dependency.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus* status,
                                     unsigned long long* id,
                                     cudaGraph_t* graph,
                                     cudaGraphNode_t const** dependencies,
                                     cudaGraphEdgeData const** edges,
                                     std::size_t* count)
{
  auto const code = cudaStreamIsCapturing(stream, status);
  bool const is_captured = code == cudaSuccess && *status != cudaStreamCaptureStatusNone;
  if (id != nullptr) { *id = is_captured ? 1 : 0; }
  if (graph != nullptr) { *graph = nullptr; }
  if (dependencies != nullptr) { *dependencies = nullptr; }
  if (edges != nullptr) { *edges = nullptr; }
  if (count != nullptr) { *count = 0; }
  return code;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
  auto const native = static_cast<CUstreamCaptureMode>(mode);
  return in_context([=] { return cuStreamBeginCapture(meant(stream), native); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph)
{
  return in_context([=] { return cuStreamEndCapture(meant(stream), graph); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
  return in_context([=] { return cuGraphLaunch(executable, meant(stream)); });
}

cudaError_t cudaGetDriverEntryPointByVersion(char const* symbol,
                                             void** function,
                                             unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult* status)
{
  if (symbol == nullptr || function == nullptr) { return record(cudaErrorInvalidValue); }
  return stand_in::started([=] {
    CUdriverProcAddressQueryResult found{};
    auto const code =
      cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &found);
    if (status != nullptr) { *status = static_cast<cudaDriverEntryPointQueryResult>(found); }
    // The runtime answers by the status, and returns success.
    return code == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : code;
  });
}

cudaError_t cudaGetDriverEntryPoint(char const* symbol,
                                    void** function,
                                    unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult* status)
{
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}

}  // extern "C"
