// Tests that fail in each way that the command has to see, and others.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>

TEST(Fails, Assertions)
{
  EXPECT_EQ(1, 2);
  EXPECT_EQ(1, 3);
}

TEST(Fails, Crash) { std::abort(); }

TEST(Fails, NoEnd)
{
  for (volatile int i = 0;; i = i + 1) {}
}

TEST(Fails, Not) { EXPECT_EQ(1, 1); }

TEST(Fails, Skips) { GTEST_SKIP() << "for a reason"; }

TEST(Fails, DISABLED_Disabled) { std::abort(); }

// Passes, but for what the software device reports.
TEST(Fails, StreamOrder)
{
  cudaStream_t stream{};
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  void* pointer{};
  ASSERT_EQ(cudaMallocAsync(&pointer, 100, stream), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(pointer, stream), cudaSuccess);
  cudaMemsetAsync(pointer, 0, 100, stream);
  cudaStreamSynchronize(stream);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}
