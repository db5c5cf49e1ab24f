// Pools that sleep: those of tags, those of graphs, and a device's own.
#pragma once

#include "out_of_memory.hpp"
#include "routes.hpp"

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace rmm_rs_torch {

/// Puts pools to sleep and wakes them. A pool is named by its device and its id; {0, 0} is the one
/// that serves the device's allocations outside of private pools.
class sleeper {
 public:
  sleeper(clients& all, private_pools& pools, routes& routes, shortages& shortages)
    : clients_{all}, pools_{pools}, routes_{routes}, shortages_{shortages}
  {
  }

  /// Makes a private pool for the memory of a tag, with a use count of 1. Throws if the device's
  /// memory cannot sleep.
  c10::MempoolId_t make_tag(c10::DeviceIndex device);

  /// The calling thread's allocations on the device go to that pool, until the region that is
  /// returned ends. Regions nest, also of one pool.
  c10::MempoolId_t begin_region(c10::DeviceIndex device, c10::MempoolId_t id);
  void end_region(c10::DeviceIndex device, c10::MempoolId_t region);

  /// The pools that streams were captured to, and that have memory.
  [[nodiscard]] std::vector<shared_pool> of_graphs() const;

  /// Throws if the pool may not fall asleep now.
  void check_may_sleep(c10::DeviceIndex device, c10::MempoolId_t id);
  /// Waits for the device, and returns the pool's memory to it: the bytes. Contents are copied to
  /// `host_memory`, or pinned memory that is allocated now, or they are lost.
  std::uint64_t sleep(c10::DeviceIndex device,
                      c10::MempoolId_t id,
                      bool to_host,
                      resource const& host_memory);
  /// Wakes the pool: the bytes, 0 if it was awake. Throws `c10::OutOfMemoryError` if there is too
  /// little memory; then it sleeps as before.
  std::uint64_t wake(c10::DeviceIndex device, c10::MempoolId_t id);
  [[nodiscard]] bool is_asleep(c10::DeviceIndex device, c10::MempoolId_t id);

  struct usage {
    /// Of blocks that are allocated.
    std::uint64_t live;
    /// Of the device's memory.
    std::uint64_t reserved;
    /// Of addresses without memory.
    std::uint64_t asleep;
  };
  [[nodiscard]] usage usage_of(c10::DeviceIndex device, c10::MempoolId_t id);

  /// Returns what the pool does not use to the device.
  void trim(c10::DeviceIndex device, c10::MempoolId_t id);
  /// Copies bytes at `from`, which lie in the block that begins at `block`, out of a pool that
  /// sleeps. False if they were not kept.
  [[nodiscard]] bool read(void const* block, void const* from, std::size_t bytes, void* out);

  /// Notes that another process may map the pool's memory.
  void note_exported(c10::DeviceIndex device, c10::MempoolId_t id);

 private:
  /// The pool of rmm-rs; none if there is none, or none yet.
  resource memory_of(c10::DeviceIndex device, c10::MempoolId_t id);

  clients& clients_;
  private_pools& pools_;
  routes& routes_;
  shortages& shortages_;
  std::mutex mutex_;
  std::set<std::pair<c10::DeviceIndex, c10::MempoolId_t>> exported_;
};

}  // namespace rmm_rs_torch
