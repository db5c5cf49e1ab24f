// What a pool does about the memory that it holds: trims, sleep, reservations, budgets, remedies,
// callbacks under pressure.

#include "check.hpp"

#include <chrono>

using rmm_rs::budget;
using rmm_rs::device_resource;
using rmm_rs::host_device_resource;
using rmm_rs::host_resource;
using rmm_rs::pool_options;
using rmm_rs::pool_preset;
using rmm_rs::sleep_contents;

namespace {

device_resource cuda_pool(pool_options const& options = {})
{
  return device_resource::pool(device_resource::cuda_resource(), options);
}

void use(device_resource const& resource, std::size_t bytes)
{
  resource.deallocate(legacy, resource.allocate(legacy, bytes), bytes);
}

}  // namespace

TEST(a_preset_for_low_latency_doubles)
{
  pool_options options;
  options.preset = pool_preset::low_latency;
  auto const pool = device_resource::pool(device_resource::virtual_resource(), options);
  void* const first = pool.allocate(legacy, 64 * MiB);
  void* const second = pool.allocate(legacy, 2 * MiB);
  CHECK(pool.pool_reserved_bytes() == 128 * MiB);
  pool.deallocate(legacy, first, 64 * MiB);
  pool.deallocate(legacy, second, 2 * MiB);
}

TEST(the_default_pool_sleeps)
{
  auto const pool = device_resource::default_pool();
  use(pool, MiB);
  CHECK(pool.pool_sleep(sleep_contents::discard, true) == pool.pool_wake());
}

TEST(a_trim_goes_through_the_stack)
{
  auto const lower = cuda_pool();
  auto const top = device_resource::limiting(device_resource::pool(lower), 1 << 30);
  use(top, 8 * MiB);
  CHECK(top.trim_blocking() == 8 * MiB);
  CHECK(lower.pool_reserved_bytes() == 0);
  CHECK(top.trim() == 0);
  THROWS(rmm_rs::logic_error, "nothing", device_resource::cuda_resource().trim_blocking());
}

TEST(a_pool_sleeps_and_wakes_up)
{
  auto const pool = device_resource::pool(device_resource::virtual_resource());
  void* const block = pool.allocate(legacy, 4 * MiB);
  auto const pinned = host_device_resource::pinned_resource();
  host_resource const host = pinned;
  CHECK(pool.pool_sleep(sleep_contents::to_host, true, &host) == 4 * MiB);
  CHECK(pool.pool_is_asleep());
  THROWS(rmm_rs::bad_alloc, "", pool.allocate(legacy, 1));
  THROWS(rmm_rs::logic_error, "", pool.pool_sleep());
  CHECK(pool.pool_wake() == 4 * MiB);
  CHECK(pool.pool_wake() == 0);
  CHECK(!pool.pool_is_asleep());
  pool.deallocate(legacy, block, 4 * MiB);
  THROWS(rmm_rs::logic_error, "VirtualMemoryResource", cuda_pool().pool_sleep());
}

TEST(a_reservation_serves_what_it_has)
{
  pool_options options;
  options.maximum_size = 4 * MiB;
  auto const pool = cuda_pool(options);
  auto const reserved = pool.pool_reserve(3 * MiB);
  CHECK(reserved.reservation_remaining() == 3 * MiB);
  THROWS(rmm_rs::out_of_memory, "", pool.allocate(legacy, 2 * MiB));
  void* const block = reserved.allocate(legacy, 2 * MiB);
  CHECK(reserved.upstream() == pool);
  CHECK(reserved.reservation_release() == MiB);
  CHECK(reserved.reservation_remaining() == 0);
  reserved.deallocate(legacy, block, 2 * MiB);
  use(pool, 4 * MiB);
  THROWS(rmm_rs::logic_error, "no reservation", pool.reservation_remaining());
}

TEST(a_budget_is_a_maximum)
{
  pool_options options;
  options.maximum_budget = budget::free_fraction(0.5);
  auto const half = cuda_pool(options).pool_maximum_size().value_or(0);
  options.maximum_budget = budget::free_except(MiB);
  CHECK(cuda_pool(options).pool_maximum_size().value_or(0) > half);
  options.maximum_budget = budget::host_fraction(0.5);
  CHECK(cuda_pool(options).pool_maximum_size().has_value());
  options.maximum_budget = budget::free_fraction(1.5);
  THROWS(rmm_rs::invalid_argument, "between 0 and 1", cuda_pool(options));
  CHECK(!cuda_pool().pool_maximum_size());
}

TEST(the_memory_of_graphs_is_returned_once_they_are_gone)
{
  pool_options options;
  options.for_graphs = true;
  auto const pool = cuda_pool(options);
  {
    rmm_rs::capture_scope const scope;
    use(pool, 8 * MiB);
  }
  CHECK(pool.pool_trim() == 0);
  CHECK(pool.pool_reserved_bytes() == 8 * MiB);
  pool.pool_release_graph_memory();
  CHECK(pool.pool_trim() == 8 * MiB);
}

TEST(segments_stay_where_they_are_pinned)
{
  pool_options options;
  options.segment_size    = 8 * MiB;
  options.single_handle   = true;
  options.pinned_segments = true;
  auto const pool = cuda_pool(options);
  use(pool, MiB);
  CHECK(pool.pool_trim() == 0);
  CHECK(pool.pool_reserved_bytes() == 8 * MiB);
  options.segment_size = 3 * MiB;
  THROWS(rmm_rs::invalid_argument, "power of two", cuda_pool(options));
}

TEST(a_pool_returns_memory_by_itself)
{
  pool_options options;
  options.release_above = 0;
  auto const pool = cuda_pool(options);
  use(pool, 8 * MiB);
  (void)pool.pool_release_unused();
  CHECK(pool.pool_reserved_bytes() == 0);
  pool_options hours;
  hours.release_after = std::chrono::hours{1};
  auto const keeps = cuda_pool(hours);
  use(keeps, 8 * MiB);
  CHECK(keeps.pool_release_unused() == 0);
}

TEST(a_pool_clears_blocks_where_that_is_asked_for)
{
  pool_options options;
  options.clear_blocks = true;
  auto const pinned = host_device_resource::pool(host_device_resource::pinned_resource(), options);
  auto* const block = static_cast<char*>(pinned.allocate_sync(4096));
  CHECK(block[0] == 0 && block[4095] == 0);
  block[0] = 1;
  pinned.deallocate_sync(block, 4096);
}

TEST(a_failure_says_what_would_have_helped)
{
  pool_options options;
  options.maximum_size = 4 * MiB;
  THROWS(rmm_rs::out_of_memory, "", cuda_pool(options).allocate(legacy, 6 * MiB));
  auto const remedies = rmm_rs::last_error_remedies();
  CHECK(remedies.size() == 1);
  if (remedies.empty()) { return; }
  CHECK(remedies[0].action == RMM_RS_REMEDY_RAISE_LIMIT);
  CHECK(remedies[0].bytes == 2 * MiB && remedies[0].is_enough == 1);
  CHECK(std::string{remedies[0].name} == "pool");
}

TEST(a_callback_frees_what_a_request_lacks)
{
  pool_options options;
  options.maximum_size = 4 * MiB;
  auto const pool = cuda_pool(options);
  void* held = pool.allocate(legacy, 3 * MiB);
  int calls = 0;
  auto const spill = [&](rmm_rs_pressure const& pressure) {
    ++calls;
    CHECK(pressure.requested == 3 * MiB);
    if (held == nullptr) { throw 1; }
    pool.deallocate(legacy, std::exchange(held, nullptr), 3 * MiB);
    return true;
  };
  {
    auto first = pool.on_pressure(spill);
    auto const moved = std::move(first);
    void* const block = pool.allocate(legacy, 3 * MiB);
    CHECK(calls == 1);
    THROWS(rmm_rs::out_of_memory, "", pool.allocate(legacy, 3 * MiB));
    CHECK(calls == 2);
    pool.deallocate(legacy, block, 3 * MiB);
  }
  void* const block = pool.allocate(legacy, 3 * MiB);
  THROWS(rmm_rs::out_of_memory, "", pool.allocate(legacy, 3 * MiB));
  CHECK(calls == 2);
  pool.deallocate(legacy, block, 3 * MiB);
  THROWS(rmm_rs::logic_error, "is a pool", device_resource::cuda_resource().on_pressure(spill));
}

TEST(requests_of_limited_effort_are_refused)
{
  pool_options options;
  options.maximum_size = 4 * MiB;
  auto const pool = cuda_pool(options);
  {
    auto const scope = rmm_rs::effort_scope::no_growth();
    THROWS(rmm_rs::out_of_memory, "limited effort", pool.allocate(legacy, MiB));
    rmm_rs::effort_scope const longer{std::chrono::hours{1}};
    pool.deallocate(legacy, pool.allocate(legacy, 4 * MiB), 4 * MiB);
  }
  auto const scope = rmm_rs::effort_scope::no_host_wait();
  pool.deallocate(legacy, pool.allocate(legacy, MiB), MiB);
  CHECK(rmm_rs_effort_push(17, 0) == RMM_RS_INVALID_ARGUMENT);
}

TEST(registered_memory_is_pinned)
{
  auto const registered = host_device_resource::registered_resource(2, RMM_RS_NUMA_NODE_ANY);
  auto* const block = static_cast<char*>(registered.allocate_sync(64));
  block[63] = 1;
  registered.deallocate_sync(block, 64);
  THROWS(rmm_rs::invalid_argument, "NUMA", host_device_resource::registered_resource(1, -7));
}

int main() { return check::run_all(); }
