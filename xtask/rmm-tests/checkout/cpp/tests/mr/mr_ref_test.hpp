// What the typed suites of resources share. Each suite is a template over a fixture, from which it
// inherits the members `mr` (a resource), `ref` (a reference to it) and `stream`.
#pragma once

#include "../byte_literals.hpp"

#include <rmm/aligned.hpp>
#include <rmm/cuda_stream.hpp>
#include <rmm/error.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/resource_ref.hpp>

#include <cuda/memory_resource>
#include <cuda/stream>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace rmm::test {

/// Default streams and one of the fixture's: each test that orders memory runs on all of them.
inline cuda::stream_ref default_stream() { return cuda::stream_ref{cudaStream_t{}}; }
inline cuda::stream_ref per_thread_stream() { return cuda::stream_ref{cudaStreamPerThread}; }

/// Writes all of a block on a stream: a write that is not ordered after the use before it, or
/// that reaches beyond the block, is one that the software driver reports.
inline void fill(void* pointer, std::size_t bytes, cuda::stream_ref stream)
{
  ASSERT_NE(pointer, nullptr);
  EXPECT_TRUE(rmm::is_pointer_aligned(pointer));
  ASSERT_EQ(cudaMemsetAsync(pointer, 0x5a, bytes, stream.get()), cudaSuccess);
}

/// Allocates, writes and frees one block.
inline void round_trip(device_async_resource_ref ref, std::size_t bytes, cuda::stream_ref stream)
{
  void* pointer = nullptr;
  ASSERT_NO_THROW(pointer = ref.allocate(stream, bytes));
  fill(pointer, bytes, stream);
  ref.deallocate(stream, pointer, bytes);
}

/// A block and its size.
struct allocation {
  void* pointer;
  std::size_t bytes;
};

/// Allocates and frees in an order that a seed decides, at most `most` blocks at a time.
inline void random_trips(device_async_resource_ref ref,
                         std::size_t largest,
                         int steps,
                         cuda::stream_ref stream,
                         unsigned seed)
{
  constexpr std::size_t most = 24;
  std::mt19937 random{seed};
  std::uniform_int_distribution<std::size_t> size{1, largest};
  std::vector<allocation> live;
  for (int step = 0; step < steps; ++step) {
    bool const frees = live.size() == most || (!live.empty() && random() % 3 == 0);
    if (frees) {
      auto const index = random() % live.size();
      std::swap(live[index], live.back());
      ref.deallocate(stream, live.back().pointer, live.back().bytes);
      live.pop_back();
      continue;
    }
    auto const bytes = size(random);
    void* pointer    = nullptr;
    ASSERT_NO_THROW(pointer = ref.allocate(stream, bytes));
    fill(pointer, bytes, stream);
    live.push_back({pointer, bytes});
  }
  for (auto const& block : live) {
    ref.deallocate(stream, block.pointer, block.bytes);
  }
}

}  // namespace rmm::test
