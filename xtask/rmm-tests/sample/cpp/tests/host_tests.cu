// No device code: plain C++, and one device unless the list says more.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

TEST(HostTest, OneDevice)
{
  int count{};
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
}
