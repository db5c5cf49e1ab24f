// The statistics of a device, as `torch.cuda.memory_stats` has them.
#pragma once

#include "private_pools.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>

namespace rmm_rs_torch {

/// The highest of some values since a reset.
class highest {
 public:
  std::int64_t update(std::int64_t value)
  {
    value_ = std::max(value_, value);
    return value_;
  }
  void reset(std::int64_t value) { value_ = value; }

 private:
  std::int64_t value_{0};
};

/// A counter of the engine's, which only grows, from a reset on.
class count_since_reset {
 public:
  [[nodiscard]] std::int64_t of(std::int64_t count) const { return count - at_reset_; }
  void reset(std::int64_t count) { at_reset_ = count; }

 private:
  std::int64_t at_reset_{0};
};

/// Statistics by device.
class statistics {
 public:
  statistics(clients& all, private_pools& pools) : clients_{all}, pools_{pools} {}

  /// All zeros if the device has no client. These three throw if there is no such device.
  c10::CachingDeviceAllocator::DeviceStats of(c10::DeviceIndex device);
  void reset_accumulated(c10::DeviceIndex device);
  void reset_peaks(c10::DeviceIndex device);

  /// Notes what the pools of a device have held at most, before some of them are retired. Linear in
  /// their number.
  void note_peak(c10::DeviceIndex device);
  /// Forgets a private pool that is not in use, with its memory, and keeps its counts.
  void retire(shared_pool const& pool);

  void count_retry(c10::DeviceIndex device);
  void count_out_of_memory(c10::DeviceIndex device);
  void count_rejection(c10::DeviceIndex device);

  /// The bytes allocated on a device, and those reserved.
  struct totals {
    std::size_t allocated;
    std::size_t reserved;
  };
  totals totals_of(c10::DeviceIndex device);

 private:
  /// What a device's pools have, together.
  struct pool_sums {
    std::int64_t reserved{0};
    /// The sum of the pools' peaks, which may have been at different times.
    std::int64_t peak_reserved{0};
    std::int64_t upstream_allocations{0};
    std::int64_t upstream_frees{0};
    std::int64_t host_waits{0};
    std::map<c10::MempoolId_t, std::pair<std::int64_t, std::int64_t>> by_private_pool;
  };
  /// What PyTorch counts from a reset, and what the engine does not count.
  struct device_counts {
    std::int64_t retries{0};
    std::int64_t out_of_memory{0};
    std::int64_t rejections{0};
    highest reserved;
    highest segments;
    count_since_reset upstream_allocations;
    count_since_reset upstream_frees;
    count_since_reset host_waits;
    /// Of private pools that are gone.
    pool_sums retired;
    std::map<c10::MempoolId_t, highest> reserved_by_private_pool;
  };

  /// The client of a device; null if it was not used. Throws if there is no such device.
  [[nodiscard]] rmm_rs_client const* client_of(c10::DeviceIndex device) const;
  pool_sums sums_of(c10::DeviceIndex device);

  clients& clients_;
  private_pools& pools_;
  // Lock order: before that of the private pools.
  std::mutex mutex_;
  std::map<c10::DeviceIndex, device_counts> counts_;
};

}  // namespace rmm_rs_torch
