// What the runtime says about devices, memory and pools.
#include "byte_literals.hpp"

#include <rmm/cuda_device.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace {

using rmm::test::operator""_MiB;

cudaPointerAttributes attributes_of(void const* pointer)
{
  cudaPointerAttributes attributes{};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
  return attributes;
}

TEST(RuntimeTest, DevicesAreCountedAndChosen)
{
  auto const count = rmm::get_num_cuda_devices();
  if (count < 2) { GTEST_SKIP() << "needs two devices"; }
  EXPECT_EQ(rmm::get_current_cuda_device().value(), 0);
  {
    rmm::cuda_set_device_raii const other{rmm::cuda_device_id{1}};
    EXPECT_EQ(rmm::get_current_cuda_device().value(), 1);
    void* pointer{};
    ASSERT_EQ(cudaMalloc(&pointer, 1_MiB), cudaSuccess);
    EXPECT_EQ(attributes_of(pointer).device, 1);
    EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  }
  EXPECT_EQ(rmm::get_current_cuda_device().value(), 0);
}

TEST(RuntimeTest, PropertiesAreTheAttributes)
{
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  int major{};
  ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(properties.major, major);
  EXPECT_EQ(properties.totalGlobalMem, rmm::available_device_memory().second);
}

TEST(RuntimeTest, PointersKnowTheirKind)
{
  void* device{};
  void* managed{};
  void* pinned{};
  int local{};
  ASSERT_EQ(cudaMalloc(&device, 64), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, 64, cudaMemAttachGlobal), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  EXPECT_EQ(attributes_of(device).type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes_of(device).hostPointer, nullptr);
  EXPECT_EQ(attributes_of(device).devicePointer, device);
  EXPECT_EQ(attributes_of(managed).type, cudaMemoryTypeManaged);
  EXPECT_EQ(attributes_of(managed).hostPointer, managed);
  EXPECT_EQ(attributes_of(pinned).type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes_of(pinned).hostPointer, pinned);
  EXPECT_EQ(attributes_of(&local).type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes_of(nullptr).type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(RuntimeTest, RequestsOfNoBytes)
{
  void* pointer = &pointer;
  EXPECT_EQ(cudaMalloc(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(RuntimeTest, LastPrefetchLocation)
{
  void* managed{};
  ASSERT_EQ(cudaMallocManaged(&managed, 2_MiB, cudaMemAttachGlobal), cudaSuccess);
  auto last = [=] {
    int where{};
    EXPECT_EQ(cudaMemRangeGetAttribute(&where,
                                       sizeof where,
                                       cudaMemRangeAttributeLastPrefetchLocation,
                                       managed,
                                       2_MiB),
              cudaSuccess);
    return where;
  };
  EXPECT_EQ(last(), cudaInvalidDeviceId);
  cudaMemLocation const device{cudaMemLocationTypeDevice, {0}};
  ASSERT_EQ(cudaMemPrefetchAsync(managed, 2_MiB, device, 0, nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(last(), 0);
  ASSERT_EQ(cudaFree(managed), cudaSuccess);
}

TEST(RuntimeTest, PoolsTakeTheirProperties)
{
  cudaMemPoolProps properties{};
  properties.allocType   = cudaMemAllocationTypePinned;
  properties.location.id = 0;
  properties.location.type = cudaMemLocationTypeDevice;
  // Bit 1: the decompression engine may use the memory.
  properties.usage = 2;
  cudaMemPool_t pool{};
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  void* pointer{};
  ASSERT_EQ(cudaMallocFromPoolAsync(&pointer, 1_MiB, pool, nullptr), cudaSuccess);
  std::uint64_t used{};
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), cudaSuccess);
  EXPECT_GE(used, 1_MiB);
  ASSERT_EQ(cudaFreeAsync(pointer, nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST(RuntimeTest, TheDriverIsLinked)
{
  int count{};
  ASSERT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, rmm::get_num_cuda_devices());
}

TEST(RuntimeTest, DriverFunctionsAreFoundByName)
{
  void* function{};
  cudaDriverEntryPointQueryResult status{};
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12080, 0, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_NE(function, nullptr);
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 12080, 0, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
}

}  // namespace
