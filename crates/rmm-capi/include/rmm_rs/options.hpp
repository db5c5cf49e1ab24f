// The options of the functions that make resources.
#ifndef RMM_RS_OPTIONS_HPP
#define RMM_RS_OPTIONS_HPP

#include "errors.hpp"

#include <cstdint>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

/// What a pool puts first: little waiting, little memory, or the same addresses in each run.
enum class pool_preset : std::uint32_t {
  throughput = RMM_RS_POOL_THROUGHPUT,
  compact = RMM_RS_POOL_COMPACT,
  deterministic = RMM_RS_POOL_DETERMINISTIC,
};

/// How a resource identifies the streams of raw handles.
enum class stream_policy : std::uint32_t {
  /// A stream may be destroyed at any time: the driver is asked for its id at each use.
  checked = RMM_RS_STREAM_POLICY_CHECKED,
  /// A stream outlives the resource, or forget_stream is called before it is destroyed.
  kept = RMM_RS_STREAM_POLICY_KEPT,
};

/// The options of basic_resource::pool, in bytes. Zero is the default of each.
struct pool_options {
  std::uint64_t initial_size = 0;       ///< Reserved at once.
  std::uint64_t maximum_size = 0;       ///< The most that is reserved; 0 for no limit.
  std::uint64_t soft_maximum_size = 0;  ///< Above it the pool reuses before it grows; 0 for none.
  pool_preset preset = pool_preset::throughput;
  stream_policy policy = stream_policy::checked;
};

/// The options of basic_resource::async_resource, in bytes.
struct async_options {
  std::uint64_t initial_size = 0;  ///< Reserved at once.
  /// Free memory above it goes back to the driver at each synchronization; by default none does.
  std::uint64_t release_threshold = UINT64_MAX;
};

/// The options of basic_resource::arena.
struct arena_options {
  std::uint64_t arena_size = 0;  ///< Of the global arena; 0 for the default.
  bool dump_log_on_failure = false;
};

/// The options of basic_resource::fixed_size. Zero is the default of each.
struct fixed_size_options {
  std::uint64_t block_size = 0;             ///< 1 MiB by default.
  std::uint64_t blocks_to_preallocate = 0;  ///< 128 by default.
};

using pool_statistics = ::rmm_rs_pool_statistics;
using statistics = ::rmm_rs_statistics;

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_OPTIONS_HPP
