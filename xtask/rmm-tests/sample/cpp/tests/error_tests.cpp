// Errors of the runtime: their names, and the last one of each thread.
#include <rmm/detail/error.hpp>
#include <rmm/error.hpp>

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace {

using ::testing::HasSubstr;

TEST(ErrorTest, NamesAndTexts)
{
  EXPECT_STREQ(cudaGetErrorName(cudaSuccess), "cudaSuccess");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorUnknown), "cudaErrorUnknown");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(-1)), "unrecognized error code");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
}

TEST(ErrorTest, LastErrorIsKeptUntilItIsRead)
{
  ASSERT_EQ(cudaSetDevice(1000), cudaErrorInvalidDevice);
  int device{};
  // A call that succeeds does not reset it.
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(ErrorTest, EachThreadHasItsOwnLastError)
{
  ASSERT_EQ(cudaSetDevice(1000), cudaErrorInvalidDevice);
  std::thread{[] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }}.join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST(ErrorTest, NotReadyIsNoError)
{
  cudaStream_t stream{};
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  void* pointer{};
  ASSERT_EQ(cudaMallocAsync(&pointer, 1 << 20, stream), cudaSuccess);
  int waits = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(cudaMemsetAsync(pointer, i, 1 << 20, stream), cudaSuccess);
    waits += cudaStreamQuery(stream) == cudaErrorNotReady ? 1 : 0;
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  }
  ASSERT_EQ(cudaFreeAsync(pointer, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  if (waits == 0) { GTEST_SKIP() << "this device was always done at once"; }
}

TEST(ErrorTest, MacroThrowsWithTheName)
{
  EXPECT_THAT([] { RMM_CUDA_TRY(cudaErrorMisalignedAddress); },
              ::testing::ThrowsMessage<rmm::cuda_error>(HasSubstr("cudaErrorMisalignedAddress")));
  EXPECT_THROW(RMM_CUDA_TRY_ALLOC(cudaErrorMemoryAllocation, 10), rmm::out_of_memory);
  EXPECT_THROW(RMM_CUDA_TRY_ALLOC(cudaErrorUnknown, 10), rmm::bad_alloc);
}

}  // namespace
