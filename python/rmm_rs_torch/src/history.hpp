// The history of allocations: trace entries, annotations, and the contexts of live blocks.
#pragma once

#include "engine.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace rmm_rs_torch {

namespace caching = c10::CachingDeviceAllocator;

using context_pointer = std::shared_ptr<c10::GatheredContext>;

/// A block as trace entries name it.
struct traced_block {
  void* pointer;
  std::size_t requested;
  c10::DeviceIndex device;
  void* stream;
  c10::MempoolId_t pool;
};

/// A buffer of the newest values.
template <class T>
class ring {
 public:
  /// At least 1. Keeps the newest values that fit.
  void set_capacity(std::size_t capacity);
  void clear();
  void push(T value);
  /// Oldest first.
  [[nodiscard]] std::vector<T> values() const;

 private:
  std::size_t capacity_{1};
  std::size_t next_{0};
  std::vector<T> values_;
};

/// What is recorded, and the records. Recorders of contexts and trackers are called with no lock.
class history {
 public:
  [[nodiscard]] bool is_enabled() const noexcept { return is_enabled_.load(); }
  void record(bool enabled,
              caching::CreateContextFn recorder,
              std::size_t capacity,
              caching::RecordContext when,
              bool clear,
              std::vector<std::string> const& skipped_actions);

  /// Whether allocations and frees are to be reported here.
  [[nodiscard]] bool wants_blocks() const noexcept
  {
    return is_enabled_.load(std::memory_order_relaxed) ||
           has_trackers_.load(std::memory_order_relaxed);
  }
  /// Whether a free is: live blocks have contexts.
  [[nodiscard]] bool wants_frees() const noexcept
  {
    return wants_blocks() || has_contexts_.load(std::memory_order_relaxed);
  }

  /// The calling thread's context, if one is recorded at `when`. Null otherwise.
  [[nodiscard]] context_pointer gather(caching::RecordContext when) const;

  void allocated(traced_block const& block, context_pointer context);
  /// A block is about to be freed. The free is complete unless it waits for recorded streams: then
  /// `free_begun` follows.
  void freed(traced_block const& block, context_pointer context, bool waits);
  /// The engine knows of a free that waits.
  void free_begun(void const* pointer);
  /// Adds the completion of frees that waited for streams: of some, or of all.
  void complete_frees(bool all = false);
  void out_of_memory(c10::DeviceIndex device, std::size_t requested, std::size_t free,
                     void* stream, context_pointer context);
  void snapshot_taken(c10::DeviceIndex device);
  /// Memory of the driver's that a pool allocated or releases.
  void segment(caching::TraceEntry::Action what, traced_block const& range, context_pointer context);
  /// Metadata for a live block.
  void annotate(traced_block const& block, std::string const& metadata);
  /// What `record_function` reports, for a device.
  void annotate(c10::DeviceIndex device,
                std::vector<std::pair<std::string, std::string>> const& metadata);

  void attach(caching::AllocatorTraceTracker tracker);

  /// The context of a live block, or null.
  [[nodiscard]] context_pointer context_of(void const* pointer) const;
  /// The context of the request for which a segment that is there was allocated, or null.
  [[nodiscard]] context_pointer context_of_segment(void const* base) const;
  /// The entries of a device, oldest first, with times since the epoch in microseconds.
  [[nodiscard]] std::vector<caching::TraceEntry> entries(c10::DeviceIndex device) const;
  [[nodiscard]] std::vector<caching::AnnotationEntry> annotations() const;

  // Of the calling thread.
  static void push_compile_context(std::string name);
  static void pop_compile_context();
  static void set_user_metadata(std::string metadata);
  static std::string const& user_metadata();

 private:
  /// A free that waits for streams.
  struct waiting_free {
    traced_block block;
    context_pointer context;
    bool has_begun;
  };
  using action = caching::TraceEntry::Action;
  using tracker_list = std::vector<caching::AllocatorTraceTracker>;

  void add(action what, traced_block const& block, context_pointer context,
           std::string const* metadata = nullptr);
  /// Takes a free out of those that wait. The mutex is held.
  waiting_free take_waiting(std::list<waiting_free>::iterator place);
  /// Converts the clock of entries to microseconds since the epoch.
  template <class Entry>
  void convert_times(std::vector<Entry>& entries) const;

  std::atomic<bool> is_enabled_{false};
  std::atomic<bool> has_trackers_{false};
  std::atomic<bool> has_contexts_{false};
  std::atomic<caching::RecordContext> when_{caching::RecordContext::NEVER};
  std::atomic<caching::CreateContextFn> recorder_{nullptr};

  // Lock order: before those of the engine's table.
  mutable std::mutex mutex_;
  // It compares the clocks when it is made and when it is used: the longer between, the better.
  mutable c10::ApproximateClockToUnixTimeConverter converter_;
  std::size_t capacity_{1};
  std::unordered_set<int> skipped_;
  std::unordered_map<c10::DeviceIndex, ring<caching::TraceEntry>> entries_;
  ring<caching::AnnotationEntry> annotations_;
  std::unordered_map<void const*, context_pointer> contexts_;
  std::unordered_map<void const*, context_pointer> segment_contexts_;
  /// Those that are looked at next come first.
  std::list<waiting_free> waiting_;
  std::unordered_map<void const*, std::list<waiting_free>::iterator> waiting_at_;
  std::atomic<bool> has_waiting_{false};
  std::shared_ptr<tracker_list const> trackers_{std::make_shared<tracker_list>()};
};

}  // namespace rmm_rs_torch
