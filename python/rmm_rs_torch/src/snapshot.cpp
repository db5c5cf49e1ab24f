#include "snapshot.hpp"

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <map>
#include <utility>

namespace rmm_rs_torch {

namespace {

using caching::BlockInfo;
using caching::SegmentInfo;

// Requests up to this are of PyTorch's small pool.
constexpr std::size_t largest_small_request = std::size_t{1} << 20;

std::uintptr_t address_of(rmm_rs_client_block const& block)
{
  return reinterpret_cast<std::uintptr_t>(block.pointer);
}

bool by_address(rmm_rs_client_block const& a, rmm_rs_client_block const& b)
{
  return address_of(a) < address_of(b);
}

/// Makes the `SegmentInfo` of a range out of blocks that come by address.
class segment_builder {
 public:
  segment_builder(c10::DeviceIndex device,
                  c10::MempoolId_t id,
                  segment const& range,
                  context_pointer context)
    : end_{range.begin + range.bytes}, at_{range.begin}
  {
    info_.device                 = device;
    info_.address                = range.begin;
    info_.total_size             = range.bytes;
    info_.stream                 = range.stream;
    info_.owner_private_pool_id  = id;
    info_.context_when_allocated = std::move(context);
  }

  void add(rmm_rs_client_block const& block, context_pointer context)
  {
    fill_up_to(address_of(block));
    bool const is_allocated = block.is_pending == 0;
    BlockInfo added;
    added.size                   = block.bytes;
    added.requested_size         = block.requested;
    added.allocated              = is_allocated;
    added.active                 = true;
    added.context_when_allocated = std::move(context);
    info_.blocks.push_back(std::move(added));
    info_.active_size += block.bytes;
    info_.requested_size += block.requested;
    if (is_allocated) { info_.allocated_size += block.bytes; }
    info_.is_large = info_.is_large || block.requested > largest_small_request;
    if (info_.blocks.size() == 1) { info_.stream = block.stream; }
    at_ = address_of(block) + block.bytes;
  }

  SegmentInfo finish()
  {
    fill_up_to(end_);
    // One without blocks in use is large if a large request fits.
    info_.is_large = info_.is_large || info_.total_size > 2 * largest_small_request;
    return std::move(info_);
  }

 private:
  /// Memory that the client does not use: free, cached, or of another user of the pool.
  void fill_up_to(std::uintptr_t address)
  {
    if (address <= at_) { return; }
    BlockInfo gap;
    gap.size = address - at_;
    info_.blocks.push_back(std::move(gap));
    at_ = address;
  }

  SegmentInfo info_;
  std::uintptr_t end_;
  std::uintptr_t at_;
};

/// Adds the segments of a pool with the blocks in them. Both come by address.
void add_segments(std::vector<SegmentInfo>& to,
                  c10::DeviceIndex device,
                  c10::MempoolId_t id,
                  std::vector<segment> const& ranges,
                  std::vector<rmm_rs_client_block> const& blocks,
                  history const& records)
{
  auto block     = blocks.begin();
  auto const add = [&](segment const& range) {
    auto context = records.context_of_segment(reinterpret_cast<void const*>(range.begin));
    segment_builder builder{device, id, range, std::move(context)};
    for (; block != blocks.end() && address_of(*block) < range.begin + range.bytes; ++block) {
      builder.add(*block, records.context_of(block->pointer));
    }
    to.push_back(builder.finish());
  };
  // A block that no pool has is a segment of its own.
  auto const add_lone_blocks_before = [&](std::uintptr_t address) {
    while (block != blocks.end() && address_of(*block) < address) {
      add({address_of(*block), block->bytes, block->stream});
    }
  };
  for (auto const& range : ranges) {
    add_lone_blocks_before(range.begin);
    add(range);
  }
  add_lone_blocks_before(UINTPTR_MAX);
}

c10::cuda::CUDACachingAllocator::AllocatorConfigInfo settings()
{
  using accelerator = c10::CachingAllocator::AcceleratorAllocatorConfig;
  using cuda        = c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;
  c10::cuda::CUDACachingAllocator::AllocatorConfigInfo info{};
  info.garbage_collection_threshold      = accelerator::garbage_collection_threshold();
  info.max_split_size                    = accelerator::max_split_size();
  info.pinned_num_register_threads       = cuda::pinned_num_register_threads();
  // Engines switch the setting off around pools of their own if it is on.
  info.expandable_segments               = false;
  info.release_lock_on_malloc            = cuda::release_lock_on_cudamalloc();
  info.pinned_use_host_register          = cuda::pinned_use_cuda_host_register();
  info.graph_capture_record_stream_reuse = cuda::graph_capture_record_stream_reuse();
  info.last_allocator_settings           = c10::CachingAllocator::getAllocatorSettings();
  info.roundup_power2_divisions          = accelerator::roundup_power2_divisions();
#if TORCH_VERSION_MINOR >= 13
  info.max_round_threshold = accelerator::pinned_max_round_threshold();
  info.max_cached_size     = accelerator::pinned_max_cached_size();
#endif
  return info;
}

}  // namespace

std::vector<rmm_rs_client_block> blocks_of(rmm_rs_client const* client,
                                           rmm_rs_resource const* pool)
{
  std::vector<rmm_rs_client_block> found;
  auto const visit = [](rmm_rs_client_block const* block, void* context) {
    static_cast<std::vector<rmm_rs_client_block>*>(context)->push_back(*block);
  };
  check(engine->rmm_rs_client_walk(client, pool, visit, &found));
  std::sort(found.begin(), found.end(), by_address);
  return found;
}

c10::cuda::CUDACachingAllocator::SnapshotInfo take_snapshot(clients& all,
                                                            private_pools const& pools,
                                                            history& records,
                                                            c10::MempoolId_t id,
                                                            bool with_traces)
{
  c10::cuda::CUDACachingAllocator::SnapshotInfo info;
  info.config_metadata = settings();
  if (with_traces) {
    records.complete_frees(true);
    info.external_annotations = records.annotations();
    // One list for each device, by its number.
    for (c10::DeviceIndex device = 0; device < c10::cuda::device_count(); ++device) {
      info.device_traces.push_back(records.entries(device));
    }
  }
  for (c10::DeviceIndex device = 0; device < c10::cuda::device_count(); ++device) {
    records.snapshot_taken(device);
  }
  for (auto const device : all.devices()) {
    // The blocks of private pools, and of the device's own memory.
    std::map<rmm_rs_resource const*, std::vector<rmm_rs_client_block>> of_pools;
    std::vector<rmm_rs_client_block> others;
    std::vector<std::pair<c10::MempoolId_t, resource>> memories;
    for (auto const& pool : pools.all()) {
      auto memory = pool->device() == device ? pool->memory_if_made() : resource{};
      if (!memory) { continue; }
      of_pools.try_emplace(memory.get());
      memories.emplace_back(pool->id(), std::move(memory));
    }
    for (auto const& block : blocks_of(all.of(device), nullptr)) {
      auto const place = of_pools.find(block.pool);
      (place == of_pools.end() ? others : place->second).push_back(block);
    }
    for (auto const& [pool, memory] : memories) {
      if (id != c10::MempoolId_t{0, 0} && id != pool) { continue; }
      add_segments(info.segments, device, pool, segments_of(memory), of_pools.at(memory.get()),
                   records);
    }
    if (id == c10::MempoolId_t{0, 0}) {
      auto const ranges = segments_of(pool_below(all.memory_of(device)));
      add_segments(info.segments, device, {0, 0}, ranges, others, records);
    }
  }
  std::sort(info.segments.begin(), info.segments.end(),
            [](auto const& a, auto const& b) { return a.address < b.address; });
  return info;
}

}  // namespace rmm_rs_torch
