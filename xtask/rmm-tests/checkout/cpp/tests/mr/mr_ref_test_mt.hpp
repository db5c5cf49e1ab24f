// Several threads on one resource, with the streams that they share or have for themselves.
#pragma once

#include "mr_ref_test.hpp"

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace rmm::test {

template <typename Fixture>
struct mr_ref_test_mt : public Fixture {};

TYPED_TEST_SUITE_P(mr_ref_test_mt);

constexpr unsigned thread_count = 4;

/// Runs `f(0)`, `f(1)`, .. in threads of their own.
template <typename F>
void on_threads(F f)
{
  std::vector<std::thread> threads;
  for (unsigned index = 0; index < thread_count; ++index) {
    threads.emplace_back(f, index);
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

/// Blocks on their way from a thread that allocates to one that frees.
class channel {
 public:
  void send(allocation block)
  {
    std::lock_guard const lock{mutex_};
    blocks_.push_back(block);
    arrived_.notify_one();
  }

  allocation receive()
  {
    std::unique_lock lock{mutex_};
    arrived_.wait(lock, [this] { return !blocks_.empty(); });
    auto const block = blocks_.front();
    blocks_.pop_front();
    return block;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::list<allocation> blocks_;
};

/// One thread allocates and writes on a stream; another frees on a stream that waits for it.
inline void hand_over(device_async_resource_ref ref, cuda::stream_ref from, cuda::stream_ref to)
{
  constexpr int count = 40;
  channel blocks;
  cudaEvent_t written{};
  ASSERT_EQ(cudaEventCreateWithFlags(&written, cudaEventDisableTiming), cudaSuccess);
  std::mutex event_mutex;
  std::thread producer{[&] {
    std::mt19937 random{7};
    for (int i = 0; i < count; ++i) {
      auto const bytes    = 1 + random() % 1_MiB;
      auto* const pointer = ref.allocate(from, bytes);
      fill(pointer, bytes, from);
      {
        std::lock_guard const lock{event_mutex};
        ASSERT_EQ(cudaEventRecord(written, from.get()), cudaSuccess);
      }
      blocks.send({pointer, bytes});
    }
    // The per-thread default stream ends with the thread.
    ASSERT_EQ(cudaStreamSynchronize(from.get()), cudaSuccess);
  }};
  std::thread consumer{[&] {
    for (int i = 0; i < count; ++i) {
      auto const block = blocks.receive();
      {
        std::lock_guard const lock{event_mutex};
        ASSERT_EQ(cudaStreamWaitEvent(to.get(), written, 0), cudaSuccess);
      }
      ref.deallocate(to, block.pointer, block.bytes);
    }
    ASSERT_EQ(cudaStreamSynchronize(to.get()), cudaSuccess);
  }};
  producer.join();
  consumer.join();
  ASSERT_EQ(cudaEventDestroy(written), cudaSuccess);
}

/// Each thread with a stream of its own.
template <typename F>
void on_own_streams(F f)
{
  on_threads([f](unsigned index) {
    rmm::cuda_stream stream;
    f(index, cuda::stream_ref{stream});
    stream.synchronize();
  });
}

#define ON_EACH_KIND_OF_STREAM(NAME, BODY)                                            \
  TYPED_TEST_P(mr_ref_test_mt, NAME##DefaultStream)                                   \
  {                                                                                   \
    on_threads([this](unsigned index) { BODY(this->ref, default_stream(), index); }); \
  }                                                                                   \
  TYPED_TEST_P(mr_ref_test_mt, NAME##PerThreadDefaultStream)                          \
  {                                                                                   \
    on_threads([this](unsigned index) {                                               \
      BODY(this->ref, per_thread_stream(), index);                                    \
      cudaStreamSynchronize(cudaStreamPerThread);                                     \
    });                                                                               \
  }                                                                                   \
  TYPED_TEST_P(mr_ref_test_mt, NAME##SharedStream)                                    \
  {                                                                                   \
    on_threads([this](unsigned index) { BODY(this->ref, this->stream, index); });     \
    this->stream.synchronize();                                                       \
  }                                                                                   \
  TYPED_TEST_P(mr_ref_test_mt, NAME##OwnStreams)                                      \
  {                                                                                   \
    on_own_streams([this](unsigned index, cuda::stream_ref stream) {                  \
      BODY(this->ref, stream, index);                                                 \
    });                                                                               \
  }

inline void allocate_small(device_async_resource_ref ref, cuda::stream_ref stream, unsigned)
{
  for (int i = 0; i < 50; ++i) {
    round_trip(ref, 1_KiB, stream);
  }
}

inline void allocate_random(device_async_resource_ref ref, cuda::stream_ref stream, unsigned index)
{
  random_trips(ref, 1_MiB, 60, stream, 11 + index);
}

ON_EACH_KIND_OF_STREAM(Allocate, allocate_small)
ON_EACH_KIND_OF_STREAM(RandomAllocations, allocate_random)

TYPED_TEST_P(mr_ref_test_mt, SetCurrentDeviceResource)
{
  auto const old = mr::set_current_device_resource(this->mr);
  on_threads([this](unsigned) {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_TRUE(mr::get_current_device_resource_ref() == this->ref);
    round_trip(mr::get_current_device_resource_ref(), 1_KiB, default_stream());
  });
  mr::reset_current_device_resource();
}

TYPED_TEST_P(mr_ref_test_mt, SetPerDeviceResource)
{
  auto const old = mr::set_per_device_resource(rmm::cuda_device_id{0}, this->mr);
  on_threads([this](unsigned) {
    EXPECT_TRUE(mr::get_per_device_resource_ref(rmm::cuda_device_id{0}) == this->ref);
  });
  mr::reset_per_device_resource(rmm::cuda_device_id{0});
}

TYPED_TEST_P(mr_ref_test_mt, FreeInAnotherThreadDefaultStream)
{
  hand_over(this->ref, default_stream(), default_stream());
}

TYPED_TEST_P(mr_ref_test_mt, FreeInAnotherThreadPerThreadDefaultStream)
{
  hand_over(this->ref, per_thread_stream(), per_thread_stream());
}

TYPED_TEST_P(mr_ref_test_mt, FreeInAnotherThreadSameStream)
{
  hand_over(this->ref, this->stream, this->stream);
}

TYPED_TEST_P(mr_ref_test_mt, FreeInAnotherThreadOtherStream)
{
  rmm::cuda_stream const other;
  hand_over(this->ref, this->stream, other);
}

TYPED_TEST_P(mr_ref_test_mt, TooLargeThrowsInEachThread)
{
  on_own_streams([this](unsigned, cuda::stream_ref stream) {
    EXPECT_THROW(std::ignore = this->ref.allocate(stream, 1_PiB), rmm::bad_alloc);
    round_trip(this->ref, 1_KiB, stream);
  });
}

REGISTER_TYPED_TEST_SUITE_P(mr_ref_test_mt,
                            AllocateDefaultStream,
                            AllocatePerThreadDefaultStream,
                            AllocateSharedStream,
                            AllocateOwnStreams,
                            RandomAllocationsDefaultStream,
                            RandomAllocationsPerThreadDefaultStream,
                            RandomAllocationsSharedStream,
                            RandomAllocationsOwnStreams,
                            SetCurrentDeviceResource,
                            SetPerDeviceResource,
                            FreeInAnotherThreadDefaultStream,
                            FreeInAnotherThreadPerThreadDefaultStream,
                            FreeInAnotherThreadSameStream,
                            FreeInAnotherThreadOtherStream,
                            TooLargeThrowsInEachThread);

}  // namespace rmm::test
