// A typed suite over a fixture with the members `ref`, a reference to a resource, and `stream`.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace rmm::test {

template <typename Fixture>
struct TypedTest : public Fixture {};

TYPED_TEST_SUITE_P(TypedTest);

TYPED_TEST_P(TypedTest, AllocateAndWrite)
{
  auto* const pointer = this->ref.allocate(this->stream, 1000);
  ASSERT_NE(pointer, nullptr);
  EXPECT_EQ(cudaMemsetAsync(pointer, 0x5a, 1000, this->stream.value()), cudaSuccess);
  this->ref.deallocate(this->stream, pointer, 1000);
}

REGISTER_TYPED_TEST_SUITE_P(TypedTest, AllocateAndWrite);

}  // namespace rmm::test
