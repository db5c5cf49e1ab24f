// Handles: copies, moves, equality, type erasure, and every function that makes or reads a
// resource.

#include "check.hpp"

#include <unistd.h>

#include <fstream>
#include <sstream>

using cuda::mr::device_accessible;
using cuda::mr::host_accessible;
using rmm_rs::device_resource;
using rmm_rs::host_device_resource;
using any = cuda::mr::any_resource<device_accessible>;
using ref = cuda::mr::resource_ref<device_accessible>;

namespace {

device_resource counted() { return device_resource::from_spec("statistics(pool(cuda))"); }

std::int64_t live(device_resource const& resource)
{
  return resource.get_statistics().current_bytes;
}

void use(device_resource const& resource, std::size_t bytes = 4096)
{
  void* const pointer = resource.allocate(legacy, bytes);
  CHECK(pointer != nullptr);
  resource.deallocate(legacy, pointer, bytes);
}

}  // namespace

TEST(a_copy_shares_the_resource)
{
  auto const first = counted();
  auto const second = first;
  void* const pointer = first.allocate(legacy, 1000);
  CHECK(live(second) == 1000);
  second.deallocate(legacy, pointer, 1000);
  CHECK(live(first) == 0);
  CHECK(first == second);
}

TEST(two_pools_are_not_equal)
{
  auto const cuda = device_resource::cuda_resource();
  CHECK(device_resource::pool(cuda) != device_resource::pool(cuda));
  CHECK(cuda == device_resource::cuda_resource());
}

TEST(a_moved_from_object_is_null_and_harmless)
{
  auto first = counted();
  auto second = std::move(first);
  CHECK(!first && second);
  CHECK(first != second);
  auto const also_null = first;
  CHECK(!also_null && also_null == first);
  first.deallocate(legacy, nullptr, 0);
  first.deallocate_sync(nullptr, 0);
  THROWS(rmm_rs::invalid_argument, "null", first.allocate(legacy, 1));
  THROWS(rmm_rs::invalid_argument, "null", first.allocate_sync(1));
  THROWS(rmm_rs::invalid_argument, "null", device_resource::pool(first));
  first = second;
  CHECK(first == second);
  use(first);
  auto& self = first;
  first = self;
  use(first);
  first = std::move(self);
  use(first);
  first = std::move(second);
  use(first);
}

TEST(a_resource_lives_in_any_resource_and_comes_back)
{
  auto const resource = counted();
  any erased{resource};
  any copy{erased};
  CHECK(erased == copy);
  void* const pointer = erased.allocate(legacy, 64, 256);
  CHECK(live(resource) == 64);
  copy.deallocate(legacy, pointer, 64, 256);
  CHECK(live(resource) == 0);
#if CCCL_VERSION >= 3004000
  auto* const back = cuda::mr::resource_cast<device_resource>(&erased);
  CHECK(back != nullptr && *back == resource);
  CHECK(cuda::mr::resource_cast<host_device_resource>(&erased) == nullptr);
#endif
  CHECK(get_property(erased, cuda::mr::dynamic_accessibility_property{}) ==
        get_property(resource, cuda::mr::dynamic_accessibility_property{}));
}

TEST(references_compare_as_their_resources_do)
{
  auto pool = counted();
  auto copy = pool;
  auto other = counted();
  CHECK(ref{pool} == ref{copy});
  CHECK(ref{pool} != ref{other});
  ref const reference{pool};
  cuda::mr::synchronous_resource_ref<device_accessible> synchronous{pool};
  any const owning{reference};
  CHECK(owning == any{pool});
  void* const pointer = synchronous.allocate_sync(100, 256);
  CHECK(live(pool) == 100);
  synchronous.deallocate_sync(pointer, 100, 256);
  CHECK(live(pool) == 0);
}

TEST(the_memory_says_who_may_use_it_whatever_the_types_say)
{
  using cuda::mr::dynamic_accessibility_property;
  using accessibility = dynamic_accessibility_property::value_type;
  auto const of = [](auto const& resource) {
    return get_property(resource, dynamic_accessibility_property{});
  };
  auto const pinned = host_device_resource::pool(host_device_resource::pinned_resource());
  device_resource const counted = device_resource::statistics(pinned);
  auto const host = rmm_rs::host_resource::host_resource();
  CHECK(of(device_resource::cuda_resource()) == accessibility::__device);
  CHECK(of(pinned) == accessibility::__host_device);
  CHECK(of(counted) == accessibility::__host_device);
  CHECK(of(host) == accessibility::__host);
  any const erased{counted};
  CHECK(of(erased) == accessibility::__host_device);
  CHECK(of(cuda::mr::any_resource<host_accessible>{host}) == accessibility::__host);
  auto given = counted;
  CHECK(of(ref{given}) == accessibility::__host_device);
  device_resource const taken{std::move(given)};
  CHECK(of(given) == accessibility::__unknown);
}

TEST(any_resource_keeps_the_resource_alive)
{
  auto made = [] {
    auto pool = device_resource::pool(device_resource::cuda_resource());
    return any{pool};
  }();
  void* const pointer = made.allocate(legacy, MiB, 256);
  CHECK(pointer != nullptr);
  made.deallocate(legacy, pointer, MiB, 256);
}

TEST(properties_are_checked_when_a_resource_is_made)
{
  CHECK(host_device_resource::pinned_resource());
  CHECK(host_device_resource::managed_resource());
  CHECK(rmm_rs::host_resource::host_resource());
  THROWS(rmm_rs::invalid_argument, "not accessible", host_device_resource::cuda_resource());
  THROWS(rmm_rs::invalid_argument, "not accessible", device_resource::host_resource());
  THROWS(
    rmm_rs::invalid_argument, "not accessible", host_device_resource::from_spec("pool(cuda)"));
  CHECK(host_device_resource::pool(host_device_resource::pinned_resource()));
}

TEST(more_properties_convert_to_fewer)
{
  auto const pinned = host_device_resource::pinned_resource();
  device_resource const device = pinned;
  rmm_rs::host_resource const host{pinned};
  CHECK(device == pinned && host.get() == pinned.get());
  auto* const text = static_cast<char*>(host.allocate_sync(8));
  text[7] = 'x';
  host.deallocate_sync(text, 8);
}

TEST(handles_pass_to_c_and_back)
{
  auto resource = counted();
  rmm_rs_resource const* const handle = resource.release();
  CHECK(!resource);
  CHECK(rmm_rs_resource_properties(handle) == RMM_RS_DEVICE_ACCESSIBLE);
  device_resource const adopted{handle};
  CHECK(adopted.get() == handle);
  device_resource const shared{rmm_rs_resource_retain(adopted.get())};
  CHECK(shared == adopted);
}

TEST(every_base_resource_is_made)
{
  using options = rmm_rs::async_options;
  use(device_resource::cuda_resource());
  use(device_resource::async_resource());
  use(device_resource::async_resource(options{.initial_size = MiB, .release_threshold = 2 * MiB}));
  use(device_resource::async_view_resource(nullptr));
  use(device_resource::async_managed_resource());
  use(device_resource::async_pinned_resource());
  use(device_resource::managed_resource());
  use(device_resource::pinned_resource());
  use(device_resource::virtual_resource());
  // The device of the tests may lack what these need; then they say so.
  for (auto const make : {+[] { return device_resource::system_resource(); },
                          +[] { return device_resource::sam_headroom_resource(MiB); }}) {
    try {
      use(make());
    } catch (rmm_rs::logic_error const& error) {
      CHECK(std::string{error.what()}.find("pageable") != std::string::npos);
    }
  }
}

TEST(every_suballocator_is_made)
{
  auto const cuda = device_resource::cuda_resource();
  use(device_resource::pool(cuda));
  use(device_resource::pool(cuda, {.initial_size = 4 * MiB,
                                   .maximum_size = 64 * MiB,
                                   .soft_maximum_size = 32 * MiB,
                                   .preset = rmm_rs::pool_preset::compact,
                                   .policy = rmm_rs::stream_policy::kept}));
  use(device_resource::arena(cuda, {.arena_size = 16 * MiB, .dump_log_on_failure = false}));
  use(device_resource::fixed_size(cuda, {.block_size = 8192, .blocks_to_preallocate = 4}));
  use(device_resource::fixed_size(cuda));
  use(device_resource::binning(cuda, 10, 14));
}

TEST(every_adaptor_is_made)
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  use(device_resource::limiting(pool, MiB));
  use(device_resource::aligned(pool, 4096, 1024));
  use(device_resource::statistics(pool));
  use(device_resource::tracking(pool, true));
  use(device_resource::prefetch(pool));
  use(device_resource::thread_safe(pool));
  use(device_resource::fallback(device_resource::limiting(pool, 16), pool));
  auto const aligned = device_resource::aligned(pool, 4096);
  void* const pointer = aligned.allocate(legacy, 100, 256);
  CHECK(reinterpret_cast<std::uintptr_t>(pointer) % 4096 == 0);
  aligned.deallocate(legacy, pointer, 100, 256);
}

TEST(the_log_has_the_calls)
{
  std::string const file = "/tmp/rmm_rs_cpp." + std::to_string(getpid()) + ".csv";
  {
    auto const pool = device_resource::pool(device_resource::cuda_resource());
    use(device_resource::logging(pool, file, true), 12345);
  }
  std::ifstream stream{file};
  std::stringstream text;
  text << stream.rdbuf();
  CHECK(text.str().find("allocate,") != std::string::npos);
  CHECK(text.str().find("12345") != std::string::npos);
  std::remove(file.c_str());
  unsetenv("RMM_LOG_FILE");
  auto const cuda = device_resource::cuda_resource();
  THROWS(rmm_rs::invalid_argument, "RMM_LOG_FILE", device_resource::logging(cuda));
}

TEST(a_failure_callback_decides_whether_to_retry)
{
  auto const limited = device_resource::limiting(device_resource::cuda_resource(), 4096);
  void* const held = limited.allocate(legacy, 3000);
  std::vector<std::size_t> requests;
  auto const calls_back = device_resource::failure_callback(limited, [&](std::size_t bytes) {
    requests.push_back(bytes);
    if (requests.size() == 1) { limited.deallocate(legacy, held, 3000); }
    return requests.size() == 1;
  });
  void* const pointer = calls_back.allocate(legacy, 2148);
  CHECK(requests == std::vector<std::size_t>{2148});
  THROWS(rmm_rs::out_of_memory, "", calls_back.allocate(legacy, 2148));
  CHECK(requests.size() == 2);
  calls_back.deallocate(legacy, pointer, 2148);
}

TEST(a_failure_callback_that_throws_says_no_and_is_destroyed_once)
{
  struct counter {
    int* alive;
    explicit counter(int* number) : alive{number} { ++*alive; }
    counter(counter const& other) : alive{other.alive} { ++*alive; }
    ~counter() { --*alive; }
  };
  int alive = 0;
  {
    auto const limited = device_resource::limiting(device_resource::cuda_resource(), 16);
    auto const resource =
      device_resource::failure_callback(limited, [kept = counter{&alive}](std::size_t) -> bool {
        throw std::runtime_error{"no"};
      });
    CHECK(alive == 1);
    THROWS(rmm_rs::out_of_memory, "", resource.allocate(legacy, 100));
    auto null = device_resource::cuda_resource();
    auto const gone = std::move(null);
    THROWS(rmm_rs::invalid_argument,
           "null",
           device_resource::failure_callback(
             null, [kept = counter{&alive}](std::size_t) { return false; }));
    CHECK(alive == 1);
  }
  CHECK(alive == 0);
}

TEST(names_descriptions_and_upstreams_are_known)
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  auto const stack = device_resource::statistics(pool);
  CHECK(std::string{stack.name()} == "statistics");
  CHECK(std::string{pool.name()} == "pool");
  CHECK(stack.describe().find("pool") != std::string::npos);
  auto const below = stack.upstream();
  CHECK(below == pool);
  CHECK(std::string{below.upstream().name()} == "cuda");
  CHECK(!below.upstream().upstream());
}

TEST(a_text_longer_than_the_first_buffer_is_whole)
{
  auto const tracking = device_resource::tracking(device_resource::cuda_resource());
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < 64; ++i) { pointers.push_back(tracking.allocate(legacy, 7000 + i)); }
  auto const text = tracking.outstanding_allocations();
  CHECK(text.size() > 255);
  CHECK(text.find("64 blocks") == text.find(" in ") + 4);
  CHECK(text.find("7063") != std::string::npos && text.ends_with("more"));
  CHECK(text.find('\0') == std::string::npos);
  for (std::size_t i = 0; i < 64; ++i) { tracking.deallocate(legacy, pointers[i], 7000 + i); }
  CHECK(tracking.outstanding_bytes() == 0);
}

TEST(statistics_count)
{
  auto const resource = counted();
  void* const first = resource.allocate(legacy, 100);
  auto const before = resource.push_statistics();
  CHECK(before.current_bytes == 100 && before.total_allocations == 1);
  void* const second = resource.allocate(legacy, 50);
  resource.deallocate(legacy, second, 50);
  auto const inner = resource.pop_statistics();
  CHECK(inner.current_bytes == 0 && inner.peak_bytes == 50);
  CHECK(resource.get_statistics().peak_bytes == 150);
  resource.deallocate(legacy, first, 100);
  THROWS(rmm_rs::invalid_argument, "", resource.pop_statistics());
  THROWS(rmm_rs::logic_error, "", device_resource::cuda_resource().get_statistics());
}

TEST(a_pool_reports_and_trims)
{
  auto const cuda = device_resource::cuda_resource();
  auto const pool =
    device_resource::pool(cuda, {.initial_size = 8 * MiB, .maximum_size = 256 * MiB});
  CHECK(pool.pool_maximum_size() == 256 * MiB);
  CHECK(!device_resource::pool(cuda).pool_maximum_size());
  CHECK(pool.pool_reserved_bytes() >= 8 * MiB);
  void* const pointer = pool.allocate(legacy, MiB);
  auto const statistics = pool.get_pool_statistics();
  CHECK(statistics.live_bytes == MiB && statistics.allocations == 1);
  pool.deallocate(legacy, pointer, MiB);
  CHECK(device_resource::statistics(pool).pool_reserved_bytes() >= 8 * MiB);
  auto const unused = device_resource::pool(cuda, {.initial_size = 8 * MiB});
  CHECK(unused.trim() >= 8 * MiB);
  CHECK(unused.pool_reserved_bytes() == 0);
  CHECK(unused.pool_trim() == 0);
  THROWS(rmm_rs::logic_error, "", cuda.trim());
}

TEST(synchronous_memory_is_there_at_once)
{
  auto const resource = counted();
  void* const pointer = resource.allocate_sync(2048);
  CHECK(reinterpret_cast<std::uintptr_t>(pointer) % 256 == 0);
  CHECK(live(resource) == 2048);
  resource.deallocate_sync(pointer, 2048);
  CHECK(live(resource) == 0);
}

TEST(the_registry_returns_what_was_set)
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  auto const previous = rmm_rs::set_per_device_resource(0, pool);
  CHECK(previous == device_resource::cuda_resource());
  CHECK(rmm_rs::get_per_device_resource(0) == pool);
  rmm_rs::reset_per_device_resource(0);
  CHECK(rmm_rs::get_per_device_resource(0) == device_resource::cuda_resource());
  THROWS(rmm_rs::invalid_argument, "", rmm_rs::get_per_device_resource(-1));
  auto null = pool;
  auto const kept = std::move(null);
  THROWS(rmm_rs::invalid_argument, "null", rmm_rs::set_per_device_resource(0, null));
}

TEST(the_library_fits_the_header)
{
  CHECK(rmm_rs::is_compatible());
  CHECK(rmm_rs::has_driver());
  CHECK(std::string{rmm_rs::version()}.find('.') != std::string::npos);
}

int main() { return check::run_all(); }
