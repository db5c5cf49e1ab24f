// Fixtures for RMM's typed suites over a resource of `rmm_rs`, which the environment names: alone,
// below two of RMM's own, and above one. Each has the members that the suites use.
#pragma once

#include <rmm_rs.hpp>

#include <rmm/cuda_stream.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/resource_ref.hpp>

#include <cuda/memory_resource>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace rmm_rs_tests {

using any_resource = cuda::mr::any_resource<cuda::mr::device_accessible>;

/// The value of a variable of the environment; empty if it is not set.
inline std::string variable(char const* name)
{
  char const* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A new resource from the specification in `RMM_RS_TESTED_RESOURCE`; with `RMM_RS_TESTED_CALLBACK`
/// one of RMM's above it, and one of ours above that, which reaches RMM's through C functions.
inline rmm_rs::device_resource tested_resource()
{
  auto resource = rmm_rs::device_resource::from_spec(variable("RMM_RS_TESTED_RESOURCE"));
  if (variable("RMM_RS_TESTED_CALLBACK").empty()) { return resource; }
  // One of ours alone would be recognised, and used without the functions.
  return rmm_rs::make_upstream(any_resource{rmm::mr::statistics_resource_adaptor{resource}});
}

/// The resource of ours that `RMM_RS_TESTED_OVER` names, above an upstream.
inline rmm_rs::device_resource tested_over(rmm_rs::device_resource const& upstream)
{
  using ours      = rmm_rs::device_resource;
  auto const name = variable("RMM_RS_TESTED_OVER");
  if (name == "pool") { return ours::pool(upstream); }
  if (name == "arena") { return ours::arena(upstream, {.arena_size = std::uint64_t{1} << 30}); }
  if (name == "fixed-size") {
    return ours::fixed_size(upstream, {.block_size = 8u << 20, .blocks_to_preallocate = 32});
  }
  if (name == "binning") { return ours::binning(ours::pool(upstream), 18, 22); }
  if (name == "aligned") { return ours::aligned(upstream, 4096); }
  if (name == "limiting") { return ours::limiting(upstream, std::uint64_t{1} << 32); }
  if (name == "statistics") { return ours::statistics(upstream); }
  if (name == "tracking") { return ours::tracking(upstream); }
  if (name == "thread-safe") { return ours::thread_safe(upstream); }
  throw std::invalid_argument{"RMM_RS_TESTED_OVER=" + name};
}

/// What lies below ours when they are over RMM's: all of it must come back.
struct rmm_below {
  rmm::mr::statistics_resource_adaptor below{rmm::mr::cuda_memory_resource{}};

  ~rmm_below()
  {
    EXPECT_EQ(below.get_bytes_counter().value, 0);
    EXPECT_EQ(below.get_allocations_counter().value, 0);
  }
};

template <class Resource>
struct fixture : public ::testing::Test {
  explicit fixture(Resource made) : mr{std::move(made)} {}

  Resource mr;
  rmm::device_async_resource_ref ref{mr};
  rmm::cuda_stream stream{};
};

struct alone : fixture<rmm_rs::device_resource> {
  alone() : fixture{tested_resource()} {}
};

struct statistics : fixture<rmm::mr::statistics_resource_adaptor> {
  statistics() : fixture{rmm::mr::statistics_resource_adaptor{tested_resource()}} {}

  // RMM's adaptor counts what ours handed out and took back.
  ~statistics() override
  {
    EXPECT_EQ(mr.get_bytes_counter().value, 0);
    EXPECT_EQ(mr.get_allocations_counter().value, 0);
  }
};

// The last base is destroyed first: ours gives back before the count is taken.
struct over_rmm : rmm_below, fixture<rmm_rs::device_resource> {
  over_rmm() : fixture{tested_over(rmm_rs::make_upstream(any_resource{below}))} {}
};

struct pool : fixture<rmm::mr::pool_memory_resource> {
  pool() : fixture{rmm::mr::pool_memory_resource{tested_resource(), std::size_t{1} << 20}} {}

  // RMM's pool gives its blocks back on the host. It waits for the last free on each stream, and
  // not for memory that it has requested there since.
  ~pool() override { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); }
};

}  // namespace rmm_rs_tests
