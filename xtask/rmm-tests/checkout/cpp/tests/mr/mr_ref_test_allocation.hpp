// Requests of many sizes, and one that no device can serve.
#pragma once

#include "mr_ref_test.hpp"

namespace rmm::test {

template <typename Fixture>
struct mr_ref_test_allocation : public Fixture {};

TYPED_TEST_SUITE_P(mr_ref_test_allocation);

TYPED_TEST_P(mr_ref_test_allocation, AllocateDefaultStream)
{
  round_trip(this->ref, 1_KiB, default_stream());
  round_trip(this->ref, 1_MiB, default_stream());
}

TYPED_TEST_P(mr_ref_test_allocation, AllocatePerThreadDefaultStream)
{
  round_trip(this->ref, 1_KiB, per_thread_stream());
  round_trip(this->ref, 1_MiB, per_thread_stream());
}

TYPED_TEST_P(mr_ref_test_allocation, AllocateOnStream)
{
  round_trip(this->ref, 1_KiB, this->stream);
  round_trip(this->ref, 1_MiB, this->stream);
  this->stream.synchronize();
}

TYPED_TEST_P(mr_ref_test_allocation, TooLargeThrowsBadAlloc)
{
  EXPECT_THROW(std::ignore = this->ref.allocate(this->stream, 1_PiB), rmm::bad_alloc);
  EXPECT_THROW(std::ignore = this->ref.allocate_sync(1_PiB), std::bad_alloc);
  // The refusal leaves no error behind, and the resource serves what comes next.
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  round_trip(this->ref, 1_KiB, this->stream);
}

TYPED_TEST_P(mr_ref_test_allocation, EveryPowerOfTwo)
{
  for (std::size_t bytes = 1; bytes <= 4_MiB; bytes *= 2) {
    round_trip(this->ref, bytes, this->stream);
    round_trip(this->ref, bytes - 1 == 0 ? 3 : bytes - 1, this->stream);
  }
}

TYPED_TEST_P(mr_ref_test_allocation, BlocksDoNotOverlap)
{
  // Each block gets a number of its own, which must still be there when all have been written.
  std::vector<allocation> blocks;
  for (unsigned char i = 0; i < 32; ++i) {
    auto const bytes = std::size_t{300} * (i + 1u);
    blocks.push_back({this->ref.allocate(this->stream, bytes), bytes});
    ASSERT_EQ(cudaMemsetAsync(blocks.back().pointer, i, bytes, this->stream.value()), cudaSuccess);
  }
  for (unsigned char i = 0; i < 32; ++i) {
    std::vector<unsigned char> bytes(blocks[i].bytes);
    ASSERT_EQ(cudaMemcpyAsync(bytes.data(),
                              blocks[i].pointer,
                              bytes.size(),
                              cudaMemcpyDefault,
                              this->stream.value()),
              cudaSuccess);
    this->stream.synchronize();
    EXPECT_EQ(bytes, std::vector<unsigned char>(bytes.size(), i));
    this->ref.deallocate(this->stream, blocks[i].pointer, blocks[i].bytes);
  }
}

TYPED_TEST_P(mr_ref_test_allocation, RandomDefaultStream)
{
  random_trips(this->ref, 2_MiB, 100, default_stream(), 1);
}

TYPED_TEST_P(mr_ref_test_allocation, RandomPerThreadDefaultStream)
{
  random_trips(this->ref, 2_MiB, 100, per_thread_stream(), 2);
}

TYPED_TEST_P(mr_ref_test_allocation, RandomOnStream)
{
  random_trips(this->ref, 2_MiB, 100, this->stream, 3);
  this->stream.synchronize();
}

REGISTER_TYPED_TEST_SUITE_P(mr_ref_test_allocation,
                            AllocateDefaultStream,
                            AllocatePerThreadDefaultStream,
                            AllocateOnStream,
                            TooLargeThrowsBadAlloc,
                            EveryPowerOfTwo,
                            BlocksDoNotOverlap,
                            RandomDefaultStream,
                            RandomPerThreadDefaultStream,
                            RandomOnStream);

}  // namespace rmm::test
