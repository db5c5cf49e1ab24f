// No device code: plain C++, and one device as the list says.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace {

TEST(HostTest, OneDeviceUnlessTheListSaysMore)
{
  int count{};
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
}

TEST(HostTest, PageableMemoryHasAnAddressWhereTheDeviceAccessesIt)
{
  int local{};
  int accesses{};
  ASSERT_EQ(cudaDeviceGetAttribute(&accesses, cudaDevAttrPageableMemoryAccess, 0), cudaSuccess);
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &local), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes.devicePointer, accesses != 0 ? &local : nullptr);
}

}  // namespace
