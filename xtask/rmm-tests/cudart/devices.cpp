// Devices and their primary contexts.
#include "runtime.hpp"

#include <array>
#include <cstring>
#include <mutex>

namespace {

constexpr int max_devices = 64;

thread_local int thread_device = 0;

std::mutex contexts_mutex;
// Primary contexts that this library has retained, by device.
std::array<CUcontext, max_devices> contexts{};

/// The primary context of a device, which is retained until the device is reset.
CUresult primary_context(int device, CUcontext* out) noexcept
{
  if (device < 0 || device >= max_devices) { return CUDA_ERROR_INVALID_DEVICE; }
  std::lock_guard const lock{contexts_mutex};
  auto& context = contexts[static_cast<std::size_t>(device)];
  if (context == nullptr) {
    CUdevice handle{};
    if (auto const code = cuDeviceGet(&handle, device); code != CUDA_SUCCESS) { return code; }
    auto const code = cuDevicePrimaryCtxRetain(&context, handle);
    if (code != CUDA_SUCCESS) { return code; }
  }
  *out = context;
  return CUDA_SUCCESS;
}

/// The device of the context that is current, or the one that the thread has chosen.
CUresult current_device(int* out) noexcept
{
  CUcontext context{};
  if (auto const code = cuCtxGetCurrent(&context); code != CUDA_SUCCESS) { return code; }
  if (context == nullptr) {
    *out = thread_device;
    return CUDA_SUCCESS;
  }
  return cuCtxGetDevice(out);
}

template <class T>
void read(T& out, CUdevice_attribute attribute, CUdevice device) noexcept
{
  int value{};
  if (cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS) {
    out = static_cast<T>(value);
  }
}

}  // namespace

namespace stand_in {

CUresult start() noexcept
{
  static CUresult const code = cuInit(0);
  return code;
}

CUresult enter() noexcept
{
  if (auto const code = start(); code != CUDA_SUCCESS) { return code; }
  CUcontext context{};
  if (auto const code = cuCtxGetCurrent(&context); code != CUDA_SUCCESS) { return code; }
  if (context != nullptr) { return CUDA_SUCCESS; }
  if (auto const code = primary_context(thread_device, &context); code != CUDA_SUCCESS) {
    return code;
  }
  return cuCtxSetCurrent(context);
}

}  // namespace stand_in

using stand_in::in_context;
using stand_in::record;
using stand_in::started;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count)
{
  if (count == nullptr) { return record(cudaErrorInvalidValue); }
  auto const code = started([=] { return cuDeviceGetCount(count); });
  return code == cudaSuccess && *count == 0 ? record(cudaErrorNoDevice) : code;
}

cudaError_t cudaGetDevice(int* device)
{
  if (device == nullptr) { return record(cudaErrorInvalidValue); }
  return started([=] { return current_device(device); });
}

cudaError_t cudaSetDevice(int device)
{
  return started([=] {
    CUcontext context{};
    if (auto const code = primary_context(device, &context); code != CUDA_SUCCESS) { return code; }
    thread_device = device;
    return cuCtxSetCurrent(context);
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned)
{
  return started([=] {
    CUcontext context{};
    return primary_context(device, &context);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device)
{
  return started([=] { return cuDeviceGetPCIBusId(text, length, device); });
}

cudaError_t cudaDeviceReset()
{
  return started([] {
    int device{};
    if (auto const code = current_device(&device); code != CUDA_SUCCESS) { return code; }
    CUdevice handle{};
    if (auto const code = cuDeviceGet(&handle, device); code != CUDA_SUCCESS) { return code; }
    std::lock_guard const lock{contexts_mutex};
    auto& context = contexts[static_cast<std::size_t>(device)];
    if (context == nullptr) { return CUDA_SUCCESS; }
    context = nullptr;
    cuCtxSetCurrent(nullptr);
    auto const code = cuDevicePrimaryCtxReset(handle);
    cuDevicePrimaryCtxRelease(handle);
    return code;
  });
}

cudaError_t cudaDeviceSynchronize() { return in_context([] { return cuCtxSynchronize(); }); }

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device)
{
  // The attributes have the driver's numbers.
  return started([=] {
    CUdevice handle{};
    if (auto const code = cuDeviceGet(&handle, device); code != CUDA_SUCCESS) { return code; }
    return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), handle);
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device)
{
  if (properties == nullptr) { return record(cudaErrorInvalidValue); }
  return started([=] {
    CUdevice handle{};
    if (auto const code = cuDeviceGet(&handle, device); code != CUDA_SUCCESS) { return code; }
    auto& p = *properties;
    std::memset(&p, 0, sizeof p);
    cuDeviceGetName(p.name, static_cast<int>(sizeof p.name), handle);
    cuDeviceTotalMem(&p.totalGlobalMem, handle);
    CUuuid uuid{};
    if (cuDeviceGetUuid(&uuid, handle) == CUDA_SUCCESS) {
      std::memcpy(&p.uuid, &uuid, sizeof uuid);
    }
    read(p.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle);
    read(p.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle);
    read(p.multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle);
    read(p.warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE, handle);
    read(p.maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, handle);
    read(p.maxThreadsPerMultiProcessor,
         CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
         handle);
    read(p.integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, handle);
    read(p.unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, handle);
    read(p.managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, handle);
    read(p.concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, handle);
    read(p.pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, handle);
    read(p.memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, handle);
    read(p.memoryPoolSupportedHandleTypes,
         CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
         handle);
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer)
{
  return started([=] { return cuDeviceCanAccessPeer(can, device, peer); });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
  return in_context([=] {
    CUcontext context{};
    if (auto const code = primary_context(peer, &context); code != CUDA_SUCCESS) { return code; }
    return cuCtxEnablePeerAccess(context, flags);
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest)
{
  return in_context([=] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                           enum cudaGraphMemAttributeType attribute,
                                           void* value)
{
  auto const native = static_cast<CUgraphMem_attribute>(attribute);
  return started([=] { return cuDeviceGetGraphMemAttribute(device, native, value); });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                           enum cudaGraphMemAttributeType attribute,
                                           void* value)
{
  auto const native = static_cast<CUgraphMem_attribute>(attribute);
  return started([=] { return cuDeviceSetGraphMemAttribute(device, native, value); });
}

cudaError_t cudaDriverGetVersion(int* version)
{
  if (version == nullptr) { return record(cudaErrorInvalidValue); }
  return started([=] { return cuDriverGetVersion(version); });
}

cudaError_t cudaRuntimeGetVersion(int* version)
{
  if (version == nullptr) { return record(cudaErrorInvalidValue); }
  *version = CUDART_VERSION;
  return cudaSuccess;
}

}  // extern "C"
