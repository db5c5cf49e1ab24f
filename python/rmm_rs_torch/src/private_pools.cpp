#include "private_pools.hpp"

#include "captures.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace rmm_rs_torch {

namespace {

/// Memory of pools that ended while a stream was captured.
struct memory_left {
  std::mutex mutex;
  std::vector<resource> of_pools;
};

memory_left& left_over()
{
  // Never destroyed, as the pools.
  static auto* const the_one = new memory_left{};
  return *the_one;
}

}  // namespace

private_pool::~private_pool()
{
  // The engine waits for the device when memory goes.
  captures_held_back const held;
  if (memory_ && !held) {
    std::lock_guard const lock{left_over().mutex};
    left_over().of_pools.push_back(std::move(memory_));
  }
  memory_ = resource{};
}

void release_memory_left()
{
  std::vector<resource> released;
  std::lock_guard const lock{left_over().mutex};
  released.swap(left_over().of_pools);
}

resource private_pool::memory(clients& all)
{
  std::lock_guard const lock{mutex_};
  if (!memory_) {
    c10::cuda::CUDAGuard const guard{device_};
    memory_ = is_foreign() ? make_foreign_pool(device_, foreign_)
              : is_tag_    ? make_tag_pool(all.memory_of(device_))
                           : make_private_pool(all.memory_of(device_));
  }
  return memory_;
}

resource private_pool::memory_if_made() const
{
  std::lock_guard const lock{mutex_};
  return memory_;
}

void private_pool::keep(rmm_rs_graph_block const* block)
{
  std::lock_guard const lock{mutex_};
  kept_.push_back(block);
}

void private_pool::release_kept()
{
  std::unique_lock lock{mutex_};
  auto const released = std::exchange(kept_, {});
  lock.unlock();
  for (auto const* const block : released) { engine->rmm_rs_graph_block_release(block); }
}

void private_pool::note(cudaStream_t stream) noexcept
{
  auto const last = last_stream_.load(std::memory_order_relaxed);
  if (has_served_.load(std::memory_order_acquire) && last == stream) { return; }
  last_stream_.store(stream, std::memory_order_relaxed);
  if (has_served_.exchange(true)) { are_several_.store(true); }
}

private_pool::served_streams private_pool::streams() const noexcept
{
  return {last_stream_.load(), are_several_.load()};
}

shared_pool private_pools::create_or_retain(c10::DeviceIndex device,
                                            c10::MempoolId_t id,
                                            std::shared_ptr<cuda_allocator> foreign)
{
  std::lock_guard const lock{mutex_};
  auto& pool = pools_[key{device, id}];
  if (pool == nullptr || pool->has_ended_) {
    if (pool != nullptr) { former_.push_back(std::move(pool)); }
    pool = std::make_shared<private_pool>(device, id, std::move(foreign));
  } else {
    TORCH_CHECK(foreign == nullptr, "rmm-rs: the private pool has an allocator already");
    ++pool->uses_;
  }
  return pool;
}

shared_pool private_pools::create_tag(c10::DeviceIndex device, c10::MempoolId_t id)
{
  std::lock_guard const lock{mutex_};
  return pools_[key{device, id}] = std::make_shared<private_pool>(device, id, nullptr, true);
}

int private_pools::release(c10::DeviceIndex device, c10::MempoolId_t id)
{
  std::lock_guard const lock{mutex_};
  auto const pool = existing(device, id);
  TORCH_CHECK(pool->uses_ > 0, "rmm-rs: the private pool was released more often than retained");
  return --pool->uses_;
}

int private_pools::uses(c10::DeviceIndex device, c10::MempoolId_t id)
{
  std::lock_guard const lock{mutex_};
  return existing(device, id)->uses_;
}

shared_pool private_pools::find(c10::DeviceIndex device, c10::MempoolId_t id) const
{
  std::lock_guard const lock{mutex_};
  auto const place = pools_.find(key{device, id});
  return place == pools_.end() ? nullptr : place->second;
}

c10::MempoolId_t private_pools::id_of(c10::DeviceIndex device, rmm_rs_resource const* memory) const
{
  auto const pool = find(device, memory);
  return pool != nullptr ? pool->id() : c10::MempoolId_t{0, 0};
}

shared_pool private_pools::find(c10::DeviceIndex device, rmm_rs_resource const* memory) const
{
  if (memory == nullptr) { return nullptr; }
  for (auto const& pool : all()) {
    auto const own = pool->memory_if_made();
    if (pool->device() == device && own && engine->rmm_rs_resource_equal(own.get(), memory)) {
      return pool;
    }
  }
  return nullptr;
}

std::vector<shared_pool> private_pools::all() const
{
  return selected([](private_pool const&) { return true; });
}

void private_pools::set_serves_shortages(c10::DeviceIndex device, c10::MempoolId_t id, bool value)
{
  std::lock_guard const lock{mutex_};
  auto const place = pools_.find(key{device, id});
  if (place != pools_.end()) {
    place->second->serves_shortages_ = value;
  } else {
    // `false` comes from the destructor of a MemPool, which must not throw.
    TORCH_CHECK(!value, "rmm-rs: there is no such private pool");
  }
}

std::vector<shared_pool> private_pools::for_shortages(c10::DeviceIndex device) const
{
  return selected([device](private_pool const& pool) {
    return pool.device_ == device && pool.serves_shortages_;
  });
}

void private_pools::set_no_split(c10::DeviceIndex device, c10::MempoolId_t id)
{
  std::lock_guard const lock{mutex_};
  existing(device, id)->no_split_ = true;
}

std::vector<shared_pool> private_pools::unused(c10::DeviceIndex device) const
{
  return selected([device](private_pool const& pool) {
    return pool.device_ == device && pool.uses_ == 0;
  });
}

bool private_pools::end(shared_pool const& pool)
{
  std::lock_guard const lock{mutex_};
  pool->has_ended_ = pool->has_ended_ || pool->uses_ == 0;
  return pool->has_ended_;
}

bool private_pools::remove_unused(shared_pool const& pool)
{
  std::lock_guard const lock{mutex_};
  if (std::erase(former_, pool) != 0) { return true; }
  auto const place = pools_.find(key{pool->device_, pool->id_});
  if (place == pools_.end() || place->second != pool || pool->uses_ != 0) { return false; }
  pools_.erase(place);
  return true;
}

shared_pool private_pools::existing(c10::DeviceIndex device, c10::MempoolId_t id) const
{
  auto const place = pools_.find(key{device, id});
  TORCH_CHECK(place != pools_.end(), "rmm-rs: there is no private pool {", id.first, ", ",
              id.second, "} on device ", static_cast<int>(device));
  return place->second;
}

template <class F>
std::vector<shared_pool> private_pools::selected(F is_wanted) const
{
  std::lock_guard const lock{mutex_};
  std::vector<shared_pool> found;
  for (auto const& [name, pool] : pools_) {
    if (is_wanted(*pool)) { found.push_back(pool); }
  }
  std::copy_if(former_.begin(), former_.end(), std::back_inserter(found),
               [&](shared_pool const& pool) { return is_wanted(*pool); });
  return found;
}

}  // namespace rmm_rs_torch
