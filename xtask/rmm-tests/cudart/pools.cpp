// The driver's pools of stream-ordered memory.
#include "runtime.hpp"

#include <cstddef>
#include <cstring>

using stand_in::in_context;
using stand_in::record;
using stand_in::started;

// Properties go to the driver byte for byte.
static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
static_assert(offsetof(cudaMemPoolProps, location) == offsetof(CUmemPoolProps, location));
static_assert(offsetof(cudaMemPoolProps, maxSize) == offsetof(CUmemPoolProps, maxSize));
static_assert(offsetof(cudaMemPoolProps, usage) == offsetof(CUmemPoolProps, usage));
static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(sizeof(cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData));

extern "C" {

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, cudaMemPoolProps const* properties)
{
  if (pool == nullptr || properties == nullptr) { return record(cudaErrorInvalidValue); }
  return in_context([=] {
    CUmemPoolProps native{};
    std::memcpy(&native, properties, sizeof native);
    return cuMemPoolCreate(pool, &native);
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
  return in_context([=] { return cuMemPoolDestroy(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep)
{
  return in_context([=] { return cuMemPoolTrimTo(pool, keep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void* value)
{
  auto const which = static_cast<CUmemPool_attribute>(attribute);
  return in_context([=] { return cuMemPoolSetAttribute(pool, which, value); });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void* value)
{
  auto const which = static_cast<CUmemPool_attribute>(attribute);
  return in_context([=] { return cuMemPoolGetAttribute(pool, which, value); });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, cudaMemAccessDesc const* list, std::size_t n)
{
  auto const* const native = reinterpret_cast<CUmemAccessDesc const*>(list);
  return in_context([=] { return cuMemPoolSetAccess(pool, native, n); });
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags* flags,
                                 cudaMemPool_t pool,
                                 cudaMemLocation* place)
{
  if (place == nullptr) { return record(cudaErrorInvalidValue); }
  return in_context([=] {
    auto native     = stand_in::location(*place);
    auto* const out = reinterpret_cast<CUmemAccess_flags*>(flags);
    return cuMemPoolGetAccess(out, pool, &native);
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device)
{
  return started([=] { return cuDeviceGetDefaultMemPool(pool, device); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device)
{
  return started([=] { return cuDeviceGetMemPool(pool, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
  return started([=] { return cuDeviceSetMemPool(device, pool); });
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool,
                                     cudaMemLocation* place,
                                     enum cudaMemAllocationType type)
{
  if (place == nullptr) { return record(cudaErrorInvalidValue); }
  return in_context([=] {
    auto native = stand_in::location(*place);
    return cuMemGetDefaultMemPool(pool, &native, static_cast<CUmemAllocationType>(type));
  });
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool,
                              cudaMemLocation* place,
                              enum cudaMemAllocationType type)
{
  if (place == nullptr) { return record(cudaErrorInvalidValue); }
  return in_context([=] {
    auto native = stand_in::location(*place);
    return cuMemGetMemPool(pool, &native, static_cast<CUmemAllocationType>(type));
  });
}

cudaError_t cudaMemPoolExportToShareableHandle(void* handle,
                                               cudaMemPool_t pool,
                                               enum cudaMemAllocationHandleType type,
                                               unsigned flags)
{
  auto const native = static_cast<CUmemAllocationHandleType>(type);
  return in_context([=] { return cuMemPoolExportToShareableHandle(handle, pool, native, flags); });
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool,
                                                 void* handle,
                                                 enum cudaMemAllocationHandleType type,
                                                 unsigned flags)
{
  auto const native = static_cast<CUmemAllocationHandleType>(type);
  return in_context(
    [=] { return cuMemPoolImportFromShareableHandle(pool, handle, native, flags); });
}

cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* pointer)
{
  auto* const native = reinterpret_cast<CUmemPoolPtrExportData*>(data);
  return in_context([=] { return cuMemPoolExportPointer(native, stand_in::address(pointer)); });
}

cudaError_t cudaMemPoolImportPointer(void** out, cudaMemPool_t pool, cudaMemPoolPtrExportData* data)
{
  auto* const native = reinterpret_cast<CUmemPoolPtrExportData*>(data);
  auto* const device = reinterpret_cast<CUdeviceptr*>(out);
  return in_context([=] { return cuMemPoolImportPointer(device, pool, native); });
}

}  // extern "C"
