// Memory that is not ordered by a stream: of devices, managed, pinned; and what is known of an
// address.
#include "runtime.hpp"

#include <cstring>

using stand_in::address;
using stand_in::in_context;
using stand_in::record;

namespace {

/// Asks the driver for memory; nothing for a request of no bytes, which the driver would refuse.
template <class F>
cudaError_t allocate(void** out, std::size_t bytes, F f) noexcept
{
  if (out == nullptr) { return record(cudaErrorInvalidValue); }
  if (bytes == 0) {
    *out = nullptr;
    return in_context([] { return CUDA_SUCCESS; });
  }
  return in_context(f);
}

template <class T>
bool read(T* out, CUpointer_attribute attribute, void const* pointer) noexcept
{
  return cuPointerGetAttribute(out, attribute, address(pointer)) == CUDA_SUCCESS;
}

/// Whether the current device accesses memory of the host that no function of CUDA knows.
bool accesses_pageable_memory() noexcept
{
  CUdevice device{};
  int accesses{};
  return cuCtxGetDevice(&device) == CUDA_SUCCESS &&
         cuDeviceGetAttribute(&accesses, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device) ==
           CUDA_SUCCESS &&
         accesses != 0;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** out, std::size_t bytes)
{
  return allocate(
    out, bytes, [=] { return cuMemAlloc(reinterpret_cast<CUdeviceptr*>(out), bytes); });
}

cudaError_t cudaFree(void* pointer)
{
  return in_context(
    [=] { return pointer == nullptr ? CUDA_SUCCESS : cuMemFree(address(pointer)); });
}

cudaError_t cudaMallocManaged(void** out, std::size_t bytes, unsigned flags)
{
  if (out == nullptr) { return record(cudaErrorInvalidValue); }
  return in_context(
    [=] { return cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(out), bytes, flags); });
}

cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned flags)
{
  return allocate(out, bytes, [=] { return cuMemHostAlloc(out, bytes, flags); });
}

cudaError_t cudaMallocHost(void** out, std::size_t bytes)
{
  return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* pointer)
{
  return in_context([=] { return pointer == nullptr ? CUDA_SUCCESS : cuMemFreeHost(pointer); });
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags)
{
  return in_context([=] { return cuMemHostRegister(pointer, bytes, flags); });
}

cudaError_t cudaHostUnregister(void* pointer)
{
  return in_context([=] { return cuMemHostUnregister(pointer); });
}

cudaError_t cudaHostGetDevicePointer(void** out, void* pointer, unsigned flags)
{
  auto* const device = reinterpret_cast<CUdeviceptr*>(out);
  return in_context([=] { return cuMemHostGetDevicePointer(device, pointer, flags); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total)
{
  return in_context([=] { return cuMemGetInfo(free, total); });
}

cudaError_t cudaMemAdvise(void const* pointer,
                          std::size_t bytes,
                          enum cudaMemoryAdvise advice,
                          cudaMemLocation place)
{
  return in_context([=] {
    return cuMemAdvise(
      address(pointer), bytes, static_cast<CUmem_advise>(advice), stand_in::location(place));
  });
}

cudaError_t cudaMemRangeGetAttribute(void* data,
                                     std::size_t data_bytes,
                                     enum cudaMemRangeAttribute attribute,
                                     void const* pointer,
                                     std::size_t bytes)
{
  return in_context([=] {
    auto const which = static_cast<CUmem_range_attribute>(attribute);
    return cuMemRangeGetAttribute(data, data_bytes, which, address(pointer), bytes);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, void const* pointer)
{
  if (out == nullptr) { return record(cudaErrorInvalidValue); }
  return in_context([=] {
    std::memset(out, 0, sizeof *out);
    out->type   = cudaMemoryTypeUnregistered;
    out->device = cudaInvalidDeviceId;
    // An address that the driver does not know is no error. Where the device accesses the host's
    // pageable memory, it is the address for both.
    unsigned kind{};
    if (!read(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer)) {
      if (accesses_pageable_memory()) {
        out->devicePointer = out->hostPointer = const_cast<void*>(pointer);
      }
      return CUDA_SUCCESS;
    }
    int is_managed{};
    read(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer);
    auto const is_host = kind == CU_MEMORYTYPE_HOST;
    out->type          = is_managed != 0 ? cudaMemoryTypeManaged
                         : is_host       ? cudaMemoryTypeHost
                                         : cudaMemoryTypeDevice;
    read(&out->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer);
    read(&out->devicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer);
    if (is_host || is_managed != 0) {
      read(&out->hostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer);
    }
    return CUDA_SUCCESS;
  });
}

// The addresses say which devices they are of. The header has no second name for this one.
cudaError_t cudaMemcpyPeerAsync(
  void* to, int, void const* from, int, std::size_t bytes, cudaStream_t stream)
{
  return in_context([=] { return cuMemcpyAsync(address(to), address(from), bytes, stream); });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer)
{
  static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));
  auto* const out = reinterpret_cast<CUipcMemHandle*>(handle);
  return in_context([=] { return cuIpcGetMemHandle(out, address(pointer)); });
}

cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned flags)
{
  CUipcMemHandle native{};
  std::memcpy(&native, &handle, sizeof native);
  auto* const device = reinterpret_cast<CUdeviceptr*>(out);
  return in_context([=] { return cuIpcOpenMemHandle(device, native, flags); });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer)
{
  return in_context([=] { return cuIpcCloseMemHandle(address(pointer)); });
}

}  // extern "C"
