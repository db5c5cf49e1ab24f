// The options of the functions that make resources.
#ifndef RMM_RS_OPTIONS_HPP
#define RMM_RS_OPTIONS_HPP

#include "errors.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

/// What a pool puts first: little waiting, little memory, the same addresses in each run, or the
/// fewest calls of the driver.
enum class pool_preset : std::uint32_t {
  throughput = RMM_RS_POOL_THROUGHPUT,
  compact = RMM_RS_POOL_COMPACT,
  deterministic = RMM_RS_POOL_DETERMINISTIC,
  low_latency = RMM_RS_POOL_LOW_LATENCY,
};

/// A number of bytes in relation to the memory that there is when a pool is made.
class budget {
 public:
  budget() noexcept = default;  ///< None.

  /// A fraction, from 0 to 1, of the current device's free memory.
  [[nodiscard]] static budget free_fraction(double fraction) noexcept
  {
    return {RMM_RS_BUDGET_FREE_FRACTION, fraction, 0};
  }
  /// The current device's free memory but for so many bytes, which stay for others.
  [[nodiscard]] static budget free_except(std::uint64_t bytes) noexcept
  {
    return {RMM_RS_BUDGET_FREE_EXCEPT, 0, bytes};
  }
  /// A fraction, from 0 to 1, of the host's free memory: for pools of pinned memory.
  [[nodiscard]] static budget host_fraction(double fraction) noexcept
  {
    return {RMM_RS_BUDGET_HOST_FRACTION, fraction, 0};
  }

  /// Sets the options of C.
  void set(rmm_rs_pool_options& options) const noexcept
  {
    options.budget = kind_;
    options.budget_fraction = fraction_;
    options.budget_bytes = bytes_;
  }

 private:
  budget(std::uint32_t kind, double fraction, std::uint64_t bytes) noexcept
    : kind_{kind}, fraction_{fraction}, bytes_{bytes}
  {
  }

  std::uint32_t kind_ = RMM_RS_BUDGET_NONE;
  double fraction_ = 0;
  std::uint64_t bytes_ = 0;
};

/// What becomes of the contents of a pool that sleeps.
enum class sleep_contents : std::uint32_t {
  discard = RMM_RS_SLEEP_DISCARD,  ///< They are lost.
  to_host = RMM_RS_SLEEP_TO_HOST,  ///< They are copied to the host, and back.
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
  budget maximum_budget{};  ///< Of this and maximum_size the smaller one counts.
  bool clear_blocks = false;  ///< Each block is filled with zeros before the caller gets it.
  /// The memory is that of CUDA graphs: the pool serves streams under capture as any others, and
  /// grows meanwhile; what a stream has freed serves that stream alone, until
  /// pool_release_graph_memory.
  bool for_graphs = false;
  /// Bytes beyond which idle memory goes back as blocks are freed; none for never.
  std::optional<std::uint64_t> release_above{};
  /// How long memory is unused until it goes back as blocks are freed; 0 for never.
  std::chrono::milliseconds release_after{0};
  std::uint64_t segment_size = 0;  ///< Taken from upstream at a time; 0 for segments that grow.
  /// Each block lies within one segment, which is one allocation of the driver.
  bool single_handle = false;
  bool pinned_segments = false;  ///< Segments stay until the end of the pool.
};

/// As what a pool of the driver can be exported; a sum of these. As
/// rmm::mr::cuda_async_memory_resource::allocation_handle_type.
enum class allocation_handle_type : std::uint32_t {
  none = 0,
  posix_file_descriptor = RMM_RS_EXPORT_POSIX_FILE_DESCRIPTOR,
  win32 = RMM_RS_EXPORT_WIN32,
  win32_kmt = RMM_RS_EXPORT_WIN32_KMT,
  fabric = RMM_RS_EXPORT_FABRIC,
};
[[nodiscard]] constexpr allocation_handle_type operator|(allocation_handle_type one,
                                                         allocation_handle_type other) noexcept
{
  return static_cast<allocation_handle_type>(static_cast<std::uint32_t>(one) |
                                             static_cast<std::uint32_t>(other));
}

/// The options of basic_resource::async_resource, in bytes.
struct async_options {
  std::uint64_t initial_size = 0;  ///< Reserved at once.
  /// Free memory above it goes back to the driver at each synchronization; by default none does.
  std::uint64_t release_threshold = UINT64_MAX;
  allocation_handle_type export_handle_type = allocation_handle_type::none;
  std::uint64_t maximum_size = 0;  ///< The most that is reserved; 0 for no limit.
};

/// The failures that basic_resource::failure_callback calls back for; a sum of these.
enum class failure_kind : std::uint32_t {
  out_of_memory = RMM_RS_FAILURE_OUT_OF_MEMORY,
  cuda_error = RMM_RS_FAILURE_CUDA_ERROR,
  bad_alloc = RMM_RS_FAILURE_OUT_OF_MEMORY | RMM_RS_FAILURE_CUDA_ERROR,  ///< Both, as in RMM.
  invalid_argument = RMM_RS_FAILURE_INVALID_ARGUMENT,
  refused = RMM_RS_FAILURE_REFUSED,
  not_ready = RMM_RS_FAILURE_NOT_READY,
};
[[nodiscard]] constexpr failure_kind operator|(failure_kind one, failure_kind other) noexcept
{
  return static_cast<failure_kind>(static_cast<std::uint32_t>(one) |
                                   static_cast<std::uint32_t>(other));
}

/// The options of basic_resource::arena.
struct arena_options {
  std::uint64_t arena_size = 0;  ///< Reserved at once; 0 for the default.
  bool dump_log_on_failure = false;
};

/// The options of basic_resource::fixed_size. Zero is the default of each.
struct fixed_size_options {
  std::uint64_t block_size = 0;             ///< 1 MiB by default.
  std::uint64_t blocks_to_preallocate = 0;  ///< 128 by default.
};

/// An allocation that a tracking adaptor has seen and that was not freed.
struct allocation_info {
  std::size_t allocation_size = 0;  ///< The bytes that were requested.
  std::string place{};   ///< The function that requested it, with the line; empty without stacks.
  std::string strace{};  ///< The stack of the request; empty without stacks.
};

using pool_statistics = ::rmm_rs_pool_statistics;
using statistics = ::rmm_rs_statistics;

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_OPTIONS_HPP
