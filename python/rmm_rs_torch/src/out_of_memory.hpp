// Out of memory: what is tried before a request fails, and what is reported then.
#pragma once

#include "history.hpp"
#include "private_pools.hpp"
#include "statistics.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include <functional>
#include <mutex>
#include <vector>

namespace rmm_rs_torch {

/// A request that the engine has refused.
struct refused_request {
  c10::DeviceIndex device;
  cudaStream_t stream;
  std::size_t bytes;
  /// The pool that refused it, or null for the device's own memory.
  shared_pool pool;
  /// The client that made it: the device's, or that of uncached memory.
  rmm_rs_client const* client;
};

/// Frees memory for refused requests, and reports those that stay so.
class shortages {
 public:
  shortages(clients& all, private_pools& pools, statistics& counts, history& records)
    : clients_{all}, pools_{pools}, counts_{counts}, history_{records}
  {
  }

  /// Tries, in this order: PyTorch's callbacks that free memory, pools that serve shortages, and a
  /// trim of all that is idle. Throws `c10::OutOfMemoryError` if the request fails still, and
  /// `c10::Error` if it failed for another reason.
  void* serve(refused_request const& request, rmm_rs_status status);

  /// Returns idle memory of the device to the driver, after a wait for its work: of its resource
  /// and of private pools that are not in use any more. Nothing while a stream is captured: false.
  bool trim(c10::DeviceIndex device);
  /// The same for one private pool, if there is such, also while it is in use.
  void trim(c10::DeviceIndex device, c10::MempoolId_t id);

  using observer = c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;
  void attach(observer function);
#if TORCH_VERSION_MINOR >= 12
  using rejection_observer = c10::cuda::CUDACachingAllocator::OomRejectionObserver;
  void attach_rejection(rejection_observer function);
#endif

 private:
  /// Trims a private pool, for which it may wait.
  void trim_waiting(shared_pool const& pool);
  /// `is_retry`: it was tried again after a trim.
  [[noreturn]] void report(refused_request const& request, bool is_retry);

  clients& clients_;
  private_pools& pools_;
  statistics& counts_;
  history& history_;
  // Lock order: leaf. Observers are called without it.
  std::mutex mutex_;
  std::vector<observer> observers_;
#if TORCH_VERSION_MINOR >= 12
  std::vector<rejection_observer> rejection_observers_;
#endif
};

}  // namespace rmm_rs_torch
