// Tests that fail in each way that the command has to see.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>

int in_the_library();

TEST(Fails, Assertion) { EXPECT_EQ(in_the_library(), 2); }

TEST(Fails, Crash) { std::abort(); }

TEST(Fails, NoEnd)
{
  for (volatile int i = 0;; i = i + 1) {}
}

// Runs in a third process, and passes.
TEST(Fails, Not) { EXPECT_EQ(in_the_library(), 1); }

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
