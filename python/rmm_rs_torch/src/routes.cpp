#include "routes.hpp"

#include "captures.hpp"

#include <c10/cuda/CUDAStream.h>
#include <torch/headeronly/version.h>

#include <algorithm>

namespace rmm_rs_torch {

namespace {

// Before 2.13 PyTorch does not say when a capture begins: the begin of its route does, until its
// end. Later it says so after the begin: from 2.14 on, which ends each route, the route does until
// then.
constexpr bool routes_announce = TORCH_VERSION_MINOR != 13;
// Before 2.13 a capture that fails leaves its route.
constexpr bool routes_are_left = TORCH_VERSION_MINOR < 13;

}  // namespace

bool route::is_stale() const { return is_of_capture && !is_captured(stream); }

void routes::begin(c10::DeviceIndex device,
                   c10::MempoolId_t id,
                   std::function<bool(cudaStream_t)> filter,
                   shared_pool pool)
{
  auto const stream = c10::cuda::getCurrentCUDAStream(device).stream();
  // A filter by capture takes no stream yet. One by thread takes this one.
  bool const is_of_capture = !filter(stream);
  if (is_of_capture && pool != nullptr) { pool->note_graphs(); }
  drop_left_over();
  erase([&](route const& r) { return r.device == device && r.id == id && r.is_stale(); }, true);
  auto added = std::make_shared<route const>(
    route{device, id, std::move(filter), std::move(pool), is_of_capture, stream,
          std::this_thread::get_id()});
  bool const announces = routes_announce && is_of_capture;
  if (announces) { announce_capture(); }
  try {
    std::lock_guard const lock{mutex_};
    for (auto const& r : newest_first_) {
      TORCH_CHECK(r->device != device || r->id != id,
                  "rmm-rs: beginAllocateToPool: allocations go to this pool already");
    }
    if (announces) { announcing_.insert(added.get()); }
    newest_first_.insert(newest_first_.begin(), std::move(added));
    count_.store(newest_first_.size(), std::memory_order_relaxed);
  } catch (...) {
    if (announces) { withdraw_capture(); }
    throw;
  }
}

void routes::capture_has_begun(c10::DeviceIndex device)
{
  auto const me = std::this_thread::get_id();
  bool is_found = false;
  {
    std::lock_guard const lock{mutex_};
    for (auto const& r : newest_first_) {
      if (r->device != device || r->begun_by != me) { continue; }
      is_found = announcing_.erase(r.get()) != 0;
      break;
    }
  }
  if (is_found) { withdraw_capture(); }
}

void routes::end(c10::DeviceIndex device, c10::MempoolId_t id)
{
  bool const ended = erase([&](route const& r) { return r.device == device && r.id == id; }, false);
  TORCH_CHECK(ended, "rmm-rs: endAllocateToPool: no allocations go to this pool");
}

void routes::drop_stale(c10::DeviceIndex device, c10::MempoolId_t id, int uses)
{
  // Each begin has added to the count: at 0 no owner of a route is left. Above, only a thread's own
  // route is known not to be one whose capture is about to begin.
  auto const is_left_over = [&](route const& r) {
    return uses == 0 || (r.begun_by == std::this_thread::get_id() && r.is_stale());
  };
  erase([&](route const& r) { return r.device == device && r.id == id && is_left_over(r); }, true);
}

void routes::drop_left_over()
{
  // Since 2.13 a graph ends its route also if its capture failed, and may destroy the stream then.
  if (!routes_are_left) { return; }
  auto const me = std::this_thread::get_id();
  erase([me](route const& r) { return r.begun_by == me && r.is_stale(); }, true);
}

bool routes::any(c10::DeviceIndex device) const
{
  auto const all = copy();
  return std::any_of(all.begin(), all.end(), [&](auto const& r) { return r->device == device; });
}

bool routes::any_to(private_pool const& pool) const
{
  auto const all = copy();
  return std::any_of(all.begin(), all.end(), [&](auto const& r) { return r->pool.get() == &pool; });
}

shared_pool routes::search(c10::DeviceIndex device, cudaStream_t stream, bool of_captures) const
{
  // Under the lock: the graph that a filter refers to may go once its route has ended.
  std::lock_guard const lock{mutex_};
  for (auto const& r : newest_first_) {
    if (r->device != device || (of_captures && !r->is_of_capture)) { continue; }
    if (!r->is_stale() && r->filter(stream)) { return r->pool; }
  }
  return nullptr;
}

routes::list routes::copy() const
{
  std::lock_guard const lock{mutex_};
  return newest_first_;
}

template <class F>
bool routes::erase(F is_wanted, bool all)
{
  // Destroyed outside the lock, since a filter may own what calls back.
  list erased;
  std::size_t announced = 0;
  for (auto const& candidate : copy()) {
    if (!is_wanted(*candidate)) { continue; }
    std::lock_guard const lock{mutex_};
    auto const place = std::find(newest_first_.begin(), newest_first_.end(), candidate);
    if (place == newest_first_.end()) { continue; }
    announced += announcing_.erase(place->get());
    erased.push_back(std::move(*place));
    newest_first_.erase(place);
    count_.store(newest_first_.size(), std::memory_order_relaxed);
    if (!all) { break; }
  }
  for (; announced > 0; --announced) { withdraw_capture(); }
  return !erased.empty();
}

}  // namespace rmm_rs_torch
