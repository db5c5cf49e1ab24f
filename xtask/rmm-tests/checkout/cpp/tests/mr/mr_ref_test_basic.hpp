// What every resource can do, whatever sizes it serves.
#pragma once

#include "mr_ref_test.hpp"

namespace rmm::test {

template <typename Fixture>
struct mr_ref_test_basic : public Fixture {};

TYPED_TEST_SUITE_P(mr_ref_test_basic);

TYPED_TEST_P(mr_ref_test_basic, SelfEquality)
{
  EXPECT_TRUE(this->ref == this->ref);
  EXPECT_FALSE(this->ref != this->ref);
  device_async_resource_ref const other{this->mr};
  EXPECT_TRUE(this->ref == other);
}

TYPED_TEST_P(mr_ref_test_basic, SetCurrentDeviceResource)
{
  {
    auto old = mr::set_current_device_resource(this->mr);
    EXPECT_TRUE(old == cuda::mr::any_resource<cuda::mr::device_accessible>{
                         mr::cuda_memory_resource{}});
  }
  EXPECT_TRUE(mr::get_current_device_resource_ref() == this->ref);
  round_trip(mr::get_current_device_resource_ref(), 64, default_stream());
  // The registry has a copy. What comes back is that copy.
  auto ours = mr::reset_current_device_resource();
  EXPECT_TRUE(device_async_resource_ref{ours} == this->ref);
}

TYPED_TEST_P(mr_ref_test_basic, AllocateZeroBytes)
{
  for (auto const stream : {default_stream(), cuda::stream_ref{this->stream}}) {
    void* pointer = this;
    ASSERT_NO_THROW(pointer = this->ref.allocate(stream, 0));
    EXPECT_NO_THROW(this->ref.deallocate(stream, pointer, 0));
  }
}

TYPED_TEST_P(mr_ref_test_basic, AllocateWord)
{
  round_trip(this->ref, sizeof(void*), default_stream());
  round_trip(this->ref, sizeof(void*), per_thread_stream());
  round_trip(this->ref, sizeof(void*), this->stream);
  this->stream.synchronize();
}

TYPED_TEST_P(mr_ref_test_basic, AllocateSync)
{
  void* pointer = nullptr;
  ASSERT_NO_THROW(pointer = this->ref.allocate_sync(4_KiB));
  fill(pointer, 4_KiB, default_stream());
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  this->ref.deallocate_sync(pointer, 4_KiB);
}

REGISTER_TYPED_TEST_SUITE_P(mr_ref_test_basic,
                            SelfEquality,
                            SetCurrentDeviceResource,
                            AllocateZeroBytes,
                            AllocateWord,
                            AllocateSync);

}  // namespace rmm::test
