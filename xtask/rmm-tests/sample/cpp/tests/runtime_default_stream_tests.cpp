// Copies, and the identity of default streams.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>

namespace {

TEST(DefaultStreamTest, CopiesOfEachDirection)
{
  std::array<int, 256> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<int>(i);
  }
  void* first{};
  void* second{};
  ASSERT_EQ(cudaMalloc(&first, sizeof numbers), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&second, sizeof numbers), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(first, &numbers, sizeof numbers, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(second, first, sizeof numbers, cudaMemcpyDeviceToDevice), cudaSuccess);
  std::array<int, 256> back{};
  ASSERT_EQ(cudaMemcpy(&back, second, sizeof back, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(back, numbers);
  EXPECT_EQ(cudaMemcpy(&back, second, 4, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
  ASSERT_EQ(cudaFree(first), cudaSuccess);
  ASSERT_EQ(cudaFree(second), cudaSuccess);
}

TEST(DefaultStreamTest, BatchesOfCopies)
{
  std::array<int, 4> numbers{1, 2, 3, 4};
  std::array<int, 4> back{};
  void* device{};
  cudaStream_t stream{};
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&device, sizeof numbers, stream), cudaSuccess);
  auto* const half = static_cast<char*>(device) + sizeof numbers / 2;
  std::array<void*, 2> to{device, half};
  std::array<void const*, 2> from{numbers.data(), numbers.data() + 2};
  std::array<std::size_t, 2> bytes{sizeof numbers / 2, sizeof numbers / 2};
  std::array<cudaMemcpyAttributes, 2> attributes{};
  attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  std::array<std::size_t, 2> first_of{0, 1};
  auto copy = [&](cudaStream_t on) {
    return cudaMemcpyBatchAsync(
      to.data(), from.data(), bytes.data(), 2, attributes.data(), first_of.data(), 2, on);
  };
  ASSERT_EQ(copy(stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&back, device, sizeof back, cudaMemcpyDefault, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(back, numbers);

  EXPECT_EQ(copy(cudaStreamLegacy), cudaErrorInvalidValue);
  first_of[1] = 2;
  EXPECT_EQ(copy(stream), cudaErrorInvalidValue);
  first_of[1]                  = 1;
  attributes[1].srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  EXPECT_EQ(copy(stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  ASSERT_EQ(cudaFreeAsync(device, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(DefaultStreamTest, NullMeansTheStreamThatTheProgramWasCompiledFor)
{
  unsigned long long null{};
  unsigned long long legacy{};
  unsigned long long own{};
  ASSERT_EQ(cudaStreamGetId(nullptr, &null), cudaSuccess);
  ASSERT_EQ(cudaStreamGetId(cudaStreamLegacy, &legacy), cudaSuccess);
  ASSERT_EQ(cudaStreamGetId(cudaStreamPerThread, &own), cudaSuccess);
  EXPECT_NE(legacy, own);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  EXPECT_EQ(null, own);
#else
  EXPECT_EQ(null, legacy);
#endif
}

TEST(DefaultStreamTest, DefaultStreamsCannotBeDestroyed)
{
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

}  // namespace
