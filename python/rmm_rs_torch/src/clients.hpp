// The client of each device, and what serves its allocations outside of private pools.
#pragma once

#include "engine.hpp"

#include <c10/core/Device.h>
#include <c10/cuda/CUDAMacros.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace rmm_rs_torch {

/// Makes the resource of a device, or none: then the client follows the device's current resource.
/// It is called with that device current.
using resource_of_device = std::function<resource(c10::DeviceIndex)>;

/// Clients by device. Each is made at its first use and is never released.
class clients {
 public:
  explicit clients(resource_of_device make) : make_{std::move(make)} {}

  /// The client of a device.
  rmm_rs_client const* of(c10::DeviceIndex device);
  /// The same if it was made already, else null.
  [[nodiscard]] rmm_rs_client const* find(c10::DeviceIndex device) const noexcept;
  /// The devices that have a client.
  [[nodiscard]] std::vector<c10::DeviceIndex> devices() const;
  /// The resource that serves a device now: a new reference.
  resource memory_of(c10::DeviceIndex device);
  /// The resource that a block is from: a private pool, or the one that serves its device now.
  resource memory_of(rmm_rs_client_block const& block);

 private:
  static constexpr std::size_t maximum = C10_COMPILE_TIME_MAX_GPUS;

  rmm_rs_client const* make(c10::DeviceIndex device);

  resource_of_device make_;
  std::mutex mutex_;
  std::array<std::atomic<rmm_rs_client const*>, maximum> clients_{};
};

/// Waits for a client's blocks with recorded streams. False while a stream is captured: then no
/// call may wait.
bool settle(rmm_rs_client const* client);

}  // namespace rmm_rs_torch
