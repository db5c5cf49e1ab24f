// Routes: which allocations a private pool serves.
#pragma once

#include "private_pools.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace rmm_rs_torch {

/// Allocations on a device go to a pool if they pass a filter.
struct route {
  c10::DeviceIndex device;
  c10::MempoolId_t id;
  std::function<bool(cudaStream_t)> filter;
  shared_pool pool;
  /// The stream that was current at the begin, if it is about to be captured: its filter did not
  /// take the stream then. Else none.
  bool is_of_capture;
  cudaStream_t stream;
  std::thread::id begun_by;

  /// Whether the stream is not captured any more. The filter refers to a graph that may be gone.
  [[nodiscard]] bool is_stale() const;
};

/// The routes, newest first. Filters run under the lock; they call no allocator.
class routes {
 public:
  /// Adds a route. Stale ones with the same id end, and those left over; a live one is an error.
  /// The device's stream that is current becomes the route's.
  void begin(c10::DeviceIndex device,
             c10::MempoolId_t id,
             std::function<bool(cudaStream_t)> filter,
             shared_pool pool);
  /// The capture that this thread has begun on the device was announced: its route does so no more.
  void capture_has_begun(c10::DeviceIndex device);
  /// Ends the newest route with that id. Throws if there is none.
  void end(c10::DeviceIndex device, c10::MempoolId_t id);
  /// Ends routes that their owner left over, after it has released the pool to a count of `uses`.
  void drop_stale(c10::DeviceIndex device, c10::MempoolId_t id, int uses);

  /// Before 2.13: ends stale routes that this thread has begun, of captures that failed.
  void drop_left_over();

  /// The pool that serves an allocation, or null.
  [[nodiscard]] shared_pool find(c10::DeviceIndex device, cudaStream_t stream) const
  {
    if (count_.load(std::memory_order_relaxed) == 0) { return nullptr; }
    return search(device, stream, false);
  }
  /// The pool of the graph that the stream is captured into, or null.
  [[nodiscard]] shared_pool find_graph(c10::DeviceIndex device, cudaStream_t stream) const
  {
    return search(device, stream, true);
  }
  /// Whether a route exists on the device.
  [[nodiscard]] bool any(c10::DeviceIndex device) const;
  /// Whether a route goes to the pool.
  [[nodiscard]] bool any_to(private_pool const& pool) const;

 private:
  using list = std::vector<std::shared_ptr<route const>>;

  [[nodiscard]] shared_pool search(c10::DeviceIndex device,
                                   cudaStream_t stream,
                                   bool of_captures) const;
  [[nodiscard]] list copy() const;
  template <class F>
  bool erase(F is_wanted, bool all);

  mutable std::mutex mutex_;
  list newest_first_;
  /// Those that have announced a capture, and have not withdrawn that.
  std::set<route const*> announcing_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace rmm_rs_torch
