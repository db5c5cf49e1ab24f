// The allocator that PyTorch calls.
#pragma once

#include "history.hpp"
#include "ipc.hpp"
#include "out_of_memory.hpp"
#include "routes.hpp"
#include "segment_history.hpp"
#include "sleeper.hpp"
#include "statistics.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace rmm_rs_torch {

/// PyTorch's interface to CUDA memory, over clients of rmm-rs. There is one in a process, which is
/// never destroyed: tensors in static objects are freed late.
class allocator final : public cuda_allocator {
 public:
  explicit allocator(resource_of_device make);

  /// Puts its pools to sleep.
  [[nodiscard]] sleeper& sleep() noexcept { return sleeper_; }

  // Memory.
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, void const* from, std::size_t bytes) const override;
  void* raw_alloc(std::size_t bytes) override;
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* pointer) override;
  using cuda_allocator::recordStream;
  void recordStream(c10::DataPtr const& memory, c10::cuda::CUDAStream stream) override;

  // The device's memory as a whole.
  bool initialized() override;
  void init(int device_count) override;
  void emptyCache(c10::MempoolId_t id = {0, 0}) override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  void enable(bool value) override;
  bool isEnabled() const override;
  void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override;
  void* getBaseAllocation(void* pointer, std::size_t* bytes) override;
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize> getExpandableSegmentSizes(
    c10::DeviceIndex device) override;
  std::string name() override;

  // Statistics.
  caching::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(c10::MempoolId_t id = {0, 0},
                                                         bool include_traces = true) override;

  // Private pools.
  void beginAllocateToPool(c10::DeviceIndex device,
                           c10::MempoolId_t id,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t id) override;
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t id) override;
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t id) override;
  void createOrIncrefPool(c10::DeviceIndex device,
                          c10::MempoolId_t id,
                          std::shared_ptr<cuda_allocator> foreign = nullptr) override;
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t id, bool use_on_oom) override;
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t id) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device,
                                c10::MempoolId_t id,
                                std::unordered_set<void*> const& expected) override;
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> getCheckpointState(
    c10::DeviceIndex device, c10::MempoolId_t id) override;
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
    c10::DeviceIndex device,
    std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state) override;
#if TORCH_VERSION_MINOR >= 13
  void markCaptureBegin(c10::DeviceIndex device) override;
  void markCaptureEnd(c10::DeviceIndex device) override;
#endif

  // Other devices and processes.
  c10::cuda::CUDACachingAllocator::ShareableHandle shareIpcHandle(void* pointer) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) override;
  cudaError_t memcpyAsync(void* to, int to_device, void const* from, int from_device,
                          std::size_t bytes, cudaStream_t stream, bool p2p_enabled) override;

  // History.
  bool isHistoryEnabled() override;
  void recordHistory(bool enabled,
                     caching::CreateContextFn recorder,
                     std::size_t capacity,
                     caching::RecordContext when,
                     bool clear,
                     std::vector<std::string> const& skipped_actions) override;
  void recordAnnotation(
    std::vector<std::pair<std::string, std::string>> const& metadata) override;
  void pushCompileContext(std::string& name) override;
  void popCompileContext() override;
  void setUserMetadata(std::string const& metadata) override;
  std::string getUserMetadata() override;
  void attachOutOfMemoryObserver(
    c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override;
#if TORCH_VERSION_MINOR >= 12
  context_pointer getContextForPointer(void const* pointer) override;
  void attachOomRejectionObserver(
    c10::cuda::CUDACachingAllocator::OomRejectionObserver observer) override;
#endif
#if TORCH_VERSION_MINOR >= 14
  bool supportsUserMetadata() override;
  void annotateMemory(void const* pointer, std::string const& metadata) override;
#endif

 private:
  void* allocate_on(c10::DeviceIndex device, cudaStream_t stream, std::size_t bytes);
  /// Has all pools' segments in the history, since something wants entries.
  void observe_segments();
  void report_to_profiler(void* pointer, std::int64_t bytes, c10::DeviceIndex device);
  /// The pool of an id, which has memory then. Throws if there is none.
  resource memory_of_pool(c10::DeviceIndex device, c10::MempoolId_t id);
  /// Adds what a restored checkpoint has freed and allocated to the history.
  void record_restore(std::vector<rmm_rs_client_block> const& before,
                      std::vector<rmm_rs_client_block> const& now);
  [[nodiscard]] traced_block traced(rmm_rs_client_block const& block) const;
  /// The pool of the graph that is captured on the block's stream, and that may use the block after
  /// its free; null for memory of pools for graphs, which keep it.
  [[nodiscard]] shared_pool graph_that_keeps(rmm_rs_client_block const& block) const;

  clients clients_;
  /// Serve requests while PyTorch's caching is switched off. No statistics count these.
  clients uncached_;
  private_pools pools_;
  routes routes_;
  exported_memory exported_;
  history history_;
  segment_history segments_{history_};
  statistics statistics_{clients_, pools_};
  shortages shortages_{clients_, pools_, statistics_, history_};
  sleeper sleeper_{clients_, pools_, routes_, shortages_};
  std::atomic<bool> is_initialized_{false};
  std::atomic<bool> is_enabled_{true};
};

/// Makes the allocator of the process, or returns the one that is there.
allocator& install(resource_of_device make);

/// The allocator of the process. Throws if none was made.
allocator& installed_allocator();

}  // namespace rmm_rs_torch
