// Private pools: the memory of graphs and of `torch.cuda.MemPool`, by device and id.
#pragma once

#include "clients.hpp"
#include "pools.hpp"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rmm_rs_torch {

/// One private pool. Its memory is made at the first allocation, so that a pool can be made while
/// a stream is captured.
class private_pool {
 public:
  private_pool(c10::DeviceIndex device,
               c10::MempoolId_t id,
               std::shared_ptr<cuda_allocator> foreign,
               bool is_tag = false)
    : device_{device}, id_{id}, foreign_{std::move(foreign)}, is_tag_{is_tag}
  {
  }

  /// Gives the memory back. While a stream is captured, `release_memory_left` does that later.
  ~private_pool();
  private_pool(private_pool const&) = delete;

  [[nodiscard]] c10::DeviceIndex device() const noexcept { return device_; }
  [[nodiscard]] c10::MempoolId_t id() const noexcept { return id_; }
  /// Whether a foreign allocator backs it.
  [[nodiscard]] bool is_foreign() const noexcept { return foreign_ != nullptr; }

  /// Whether it is the memory of a tag.
  [[nodiscard]] bool is_tag() const noexcept { return is_tag_; }
  /// Whether a stream was captured while the pool served it.
  [[nodiscard]] bool is_of_graphs() const noexcept { return is_of_graphs_.load(); }
  void note_graphs() noexcept { is_of_graphs_.store(true); }

  /// The pool of rmm-rs, which is made if there is none.
  resource memory(clients& all);
  /// The same if it was made already, else none.
  [[nodiscard]] resource memory_if_made() const;

  /// Takes a block of other memory that was freed in a capture of the pool's graphs, which use it.
  void keep(rmm_rs_graph_block const* block);
  /// Gives those blocks back. No graph of the pool runs, and none is launched again.
  void release_kept();

  /// Notes that the pool serves a stream.
  void note(cudaStream_t stream) noexcept;
  /// The stream that it has served last, and whether there were others.
  struct served_streams {
    cudaStream_t last;
    bool are_several;
  };
  [[nodiscard]] served_streams streams() const noexcept;

 private:
  friend class private_pools;

  c10::DeviceIndex device_;
  c10::MempoolId_t id_;
  std::shared_ptr<cuda_allocator> foreign_;
  bool is_tag_;
  mutable std::mutex mutex_;
  resource memory_;
  std::vector<rmm_rs_graph_block const*> kept_;
  std::atomic<cudaStream_t> last_stream_{nullptr};
  std::atomic<bool> has_served_{false};
  std::atomic<bool> are_several_{false};
  std::atomic<bool> is_of_graphs_{false};
  // The rest is guarded by the mutex of `private_pools`.
  int uses_{1};
  bool serves_shortages_{false};
  bool no_split_{false};
  /// Whether its memory is that of graphs no more.
  bool has_ended_{false};
};

/// A pool of which a caller has no use count may go at any time: they are shared.
using shared_pool = std::shared_ptr<private_pool>;

/// Gives back the memory of pools that ended while a stream was captured. It may wait for the
/// device.
void release_memory_left();

/// All private pools.
class private_pools {
 public:
  /// Makes a pool with a use count of 1, or adds 1 to that of an existing one that has not ended.
  shared_pool create_or_retain(c10::DeviceIndex device,
                               c10::MempoolId_t id,
                               std::shared_ptr<cuda_allocator> foreign = nullptr);
  /// Makes a pool for the memory of a tag, with a use count of 1. The id is new.
  shared_pool create_tag(c10::DeviceIndex device, c10::MempoolId_t id);
  /// Subtracts 1 from the use count, which it returns. A pool whose count is 0 stays until
  /// `remove_idle`.
  int release(c10::DeviceIndex device, c10::MempoolId_t id);
  /// The pool with that memory, or null.
  [[nodiscard]] shared_pool find(c10::DeviceIndex device, rmm_rs_resource const* memory) const;
  /// The use count. Throws if there is no such pool.
  int uses(c10::DeviceIndex device, c10::MempoolId_t id);
  /// The pool, or null.
  [[nodiscard]] shared_pool find(c10::DeviceIndex device, c10::MempoolId_t id) const;
  /// The id of the pool whose memory that is; {0, 0} for other memory.
  [[nodiscard]] c10::MempoolId_t id_of(c10::DeviceIndex device,
                                       rmm_rs_resource const* memory) const;
  /// All pools.
  [[nodiscard]] std::vector<shared_pool> all() const;

  /// Whether the pool serves requests that the others cannot. An unknown pool is made by `true`,
  /// as `torch.cuda.MemPool` may say so first; `false` of an unknown pool does nothing.
  void set_serves_shortages(c10::DeviceIndex device, c10::MempoolId_t id, bool value);
  /// The pools of a device that do.
  [[nodiscard]] std::vector<shared_pool> for_shortages(c10::DeviceIndex device) const;
  void set_no_split(c10::DeviceIndex device, c10::MempoolId_t id);

  /// The pools of a device whose use count is 0.
  [[nodiscard]] std::vector<shared_pool> unused(c10::DeviceIndex device) const;
  /// Ends a pool whose use count is 0: the next one with its id is another. Returns whether it has.
  bool end(shared_pool const& pool);
  /// Forgets a pool, if its use count is 0 still. Returns whether it has.
  bool remove_unused(shared_pool const& pool);

 private:
  using key = std::pair<c10::DeviceIndex, c10::MempoolId_t>;

  shared_pool existing(c10::DeviceIndex device, c10::MempoolId_t id) const;
  template <class F>
  std::vector<shared_pool> selected(F is_wanted) const;

  mutable std::mutex mutex_;
  std::map<key, shared_pool> pools_;
  /// Pools that have ended, of which blocks are left, and in whose place there is another.
  std::vector<shared_pool> former_;
};

}  // namespace rmm_rs_torch
