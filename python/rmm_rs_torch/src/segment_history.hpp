// Entries of the history for what pools take from the driver.
#pragma once

#include "history.hpp"
#include "pools.hpp"

#include <mutex>
#include <set>
#include <tuple>

namespace rmm_rs_torch {

/// The request or trim of this thread: entries for segments that come or go by it have its stream
/// and context. It ends with the object.
class growing_request {
 public:
  growing_request(cudaStream_t stream, context_pointer context) noexcept;
  ~growing_request();
  growing_request(growing_request const&)            = delete;
  growing_request& operator=(growing_request const&) = delete;

  cudaStream_t const stream;
  context_pointer const context;

 private:
  growing_request const* before_;
};

/// Adds an entry for each segment, before a block in it is allocated and before it goes: NCCL,
/// which hears of entries, registers segments and gives them up.
class segment_history {
 public:
  explicit segment_history(history& records) : records_{records} {}

  /// Observes the pool of an id from now on, {0, 0} for the device's, until the pool ends. Nothing
  /// happens if it is observed, or null.
  void observe(c10::DeviceIndex device, c10::MempoolId_t id, resource const& pool);

 private:
  /// A device, an id, and the identity of a pool.
  using key = std::tuple<c10::DeviceIndex, c10::MempoolId_t, std::uint64_t>;

  history& records_;
  // Lock order: leaf.
  std::mutex mutex_;
  /// What is observed.
  std::set<key> pools_;
};

}  // namespace rmm_rs_torch
