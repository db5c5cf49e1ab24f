#include "statistics.hpp"

#include <c10/cuda/CUDAFunctions.h>
#include <torch/headeronly/version.h>

#include <algorithm>

namespace rmm_rs_torch {

namespace {

using device_stats = c10::CachingDeviceAllocator::DeviceStats;
using stat         = c10::CachingAllocator::Stat;
using stat_array   = c10::CachingAllocator::StatArray;

constexpr auto aggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

rmm_rs_client_statistics statistics_of(rmm_rs_client const* client)
{
  rmm_rs_client_statistics found{};
  found.size = sizeof found;
  check(engine->rmm_rs_client_statistics_get(client, &found));
  return found;
}

/// The engine has the three values in PyTorch's order: all, small, large.
void assign(stat_array& to, rmm_rs_client_stat const (&from)[3])
{
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i].current   = from[i].current;
    to[i].peak      = from[i].peak;
    to[i].allocated = from[i].allocated;
    to[i].freed     = from[i].freed;
  }
}

/// A value of which only the sum is known.
void assign(stat& to, std::int64_t current, std::int64_t peak)
{
  to.current   = current;
  to.peak      = peak;
  to.allocated = current;
  to.freed     = 0;
}

}  // namespace

statistics::pool_sums statistics::sums_of(c10::DeviceIndex device)
{
  auto sums = pool_sums{};
  std::vector<shared_pool> pools;
  {
    // Together: a pool is in one of the two.
    std::lock_guard const lock{mutex_};
    sums  = counts_[device].retired;
    pools = pools_.all();
  }
  auto const add = [&sums](rmm_rs_pool_statistics const& pool) {
    sums.reserved += static_cast<std::int64_t>(pool.reserved_bytes - pool.asleep_bytes);
    sums.peak_reserved += static_cast<std::int64_t>(pool.peak_reserved_bytes);
    sums.upstream_allocations += static_cast<std::int64_t>(pool.upstream_allocations);
    sums.upstream_frees += static_cast<std::int64_t>(pool.upstream_frees);
    sums.host_waits += static_cast<std::int64_t>(pool.host_waits);
  };
  if (auto const pool = pool_below(clients_.memory_of(device)); pool) {
    add(statistics_of(pool));
  } else {
    // Without a pool what is allocated is what is reserved.
    auto const own = statistics_of(clients_.of(device)).active_bytes[aggregate];
    sums.reserved += own.current;
    sums.peak_reserved += own.peak;
  }
  for (auto const& pool : pools) {
    if (pool->device() != device) { continue; }
    auto const own = statistics_of(pool->memory_if_made());
    add(own);
    auto& [reserved, peak] = sums.by_private_pool[pool->id()];
    reserved += static_cast<std::int64_t>(own.reserved_bytes - own.asleep_bytes);
    peak += static_cast<std::int64_t>(own.peak_reserved_bytes);
  }
  return sums;
}

rmm_rs_client const* statistics::client_of(c10::DeviceIndex device) const
{
  auto const* const client = clients_.find(device);
  if (client == nullptr) {
    TORCH_CHECK(device >= 0 && device < c10::cuda::device_count(), "rmm-rs: there is no device ",
                static_cast<int>(device));
  }
  return client;
}

device_stats statistics::of(c10::DeviceIndex device)
{
  device_stats stats;
  stats.max_split_size = -1;
  auto const* const client = client_of(device);
  if (client == nullptr) { return stats; }
  auto const own  = statistics_of(client);
  auto const sums = sums_of(device);
  assign(stats.allocation, own.allocation);
  assign(stats.allocated_bytes, own.allocated_bytes);
  assign(stats.requested_bytes, own.requested_bytes);
  assign(stats.active, own.active);
  assign(stats.active_bytes, own.active_bytes);

  std::lock_guard const lock{mutex_};
  auto& counts        = counts_[device];
  auto const segments = sums.upstream_allocations - sums.upstream_frees;
  assign(stats.reserved_bytes[aggregate], sums.reserved,
         counts.reserved.update(sums.peak_reserved));
  assign(stats.segment[aggregate], segments, counts.segments.update(segments));
  stats.num_alloc_retries    = counts.retries;
  stats.num_ooms             = counts.out_of_memory;
  stats.num_sync_all_streams = counts.host_waits.of(sums.host_waits);
  stats.num_device_alloc     = counts.upstream_allocations.of(sums.upstream_allocations);
  stats.num_device_free      = counts.upstream_frees.of(sums.upstream_frees);
  stats.segment[aggregate].allocated = stats.num_device_alloc;
  stats.segment[aggregate].freed     = stats.num_device_free;
#if TORCH_VERSION_MINOR >= 12
  stats.num_oom_rejections = counts.rejections;
#endif
#if TORCH_VERSION_MINOR >= 13
  for (auto const& [id, bytes] : sums.by_private_pool) {
    counts.reserved_by_private_pool[id].update(bytes.second);
  }
  // Pools that are gone keep their peak.
  for (auto& [id, peak] : counts.reserved_by_private_pool) {
    auto const place   = sums.by_private_pool.find(id);
    auto const current = place == sums.by_private_pool.end() ? 0 : place->second.first;
    assign(stats.reserved_bytes_by_private_pools[id][aggregate], current, peak.update(0));
  }
#endif
  return stats;
}

void statistics::reset_accumulated(c10::DeviceIndex device)
{
  auto const* const client = client_of(device);
  if (client == nullptr) { return; }
  check(engine->rmm_rs_client_reset_accumulated(client));
  auto const sums = sums_of(device);
  std::lock_guard const lock{mutex_};
  auto& counts         = counts_[device];
  counts.retries       = 0;
  counts.out_of_memory = 0;
  counts.rejections    = 0;
  counts.upstream_allocations.reset(sums.upstream_allocations);
  counts.upstream_frees.reset(sums.upstream_frees);
  counts.host_waits.reset(sums.host_waits);
}

void statistics::reset_peaks(c10::DeviceIndex device)
{
  auto const* const client = client_of(device);
  if (client == nullptr) { return; }
  check(engine->rmm_rs_client_reset_peaks(client));
  auto const reset = [](resource const& pool) {
    if (pool) { check(engine->rmm_rs_pool_reset_peak_reserved(pool.get())); }
  };
  reset(pool_below(clients_.memory_of(device)));
  for (auto const& pool : pools_.all()) {
    if (pool->device() == device) { reset(pool->memory_if_made()); }
  }
  auto const sums     = sums_of(device);
  auto const segments = sums.upstream_allocations - sums.upstream_frees;
  std::lock_guard const lock{mutex_};
  auto& counts = counts_[device];
  counts.reserved.reset(sums.reserved);
  counts.segments.reset(segments);
  counts.reserved_by_private_pool.clear();
  for (auto const& [id, bytes] : sums.by_private_pool) {
    counts.reserved_by_private_pool[id].reset(bytes.first);
  }
}

void statistics::note_peak(c10::DeviceIndex device)
{
  auto const sums = sums_of(device);
  std::lock_guard const lock{mutex_};
  counts_[device].reserved.update(sums.peak_reserved);
}

void statistics::retire(shared_pool const& pool)
{
  auto const last = statistics_of(pool->memory_if_made());
  std::lock_guard const lock{mutex_};
  if (!pools_.remove_unused(pool)) { return; }
  auto& counts = counts_[pool->device()];
  counts.retired.upstream_allocations += static_cast<std::int64_t>(last.upstream_allocations);
  // All of its memory goes back.
  counts.retired.upstream_frees += static_cast<std::int64_t>(last.upstream_allocations);
  counts.retired.host_waits += static_cast<std::int64_t>(last.host_waits);
  auto const peak = static_cast<std::int64_t>(last.peak_reserved_bytes);
  counts.reserved_by_private_pool[pool->id()].update(peak);
}

void statistics::count_retry(c10::DeviceIndex device)
{
  std::lock_guard const lock{mutex_};
  ++counts_[device].retries;
}

void statistics::count_out_of_memory(c10::DeviceIndex device)
{
  std::lock_guard const lock{mutex_};
  ++counts_[device].out_of_memory;
}

void statistics::count_rejection(c10::DeviceIndex device)
{
  std::lock_guard const lock{mutex_};
  ++counts_[device].rejections;
}

statistics::totals statistics::totals_of(c10::DeviceIndex device)
{
  auto const own = statistics_of(clients_.of(device)).allocated_bytes[aggregate].current;
  return {static_cast<std::size_t>(own), static_cast<std::size_t>(sums_of(device).reserved)};
}

}  // namespace rmm_rs_torch
