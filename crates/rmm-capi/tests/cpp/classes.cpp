// What RMM's classes have besides a constructor with two numbers: options, getters, bins, lines of a
// log, outstanding allocations, and kinds of failures.

#include "check.hpp"

#include <mutex>
#include <stdexcept>

using rmm_rs::device_resource;

namespace {

device_resource on_cuda() { return device_resource::cuda_resource(); }

device_resource null()
{
  auto resource = on_cuda();
  auto const gone = std::move(resource);
  return resource;
}

}  // namespace

TEST(a_pool_of_the_driver_has_options_and_a_handle)
{
  rmm_rs::async_options options;
  options.maximum_size = 4 * MiB;
  auto const pool = device_resource::async_resource(options);
  THROWS(rmm_rs::out_of_memory, "", pool.allocate(legacy, 8 * MiB));
  auto const handle = pool.pool_handle();
  CHECK(handle != nullptr);
  CHECK(device_resource::statistics(pool).pool_handle() == handle);
  CHECK(device_resource::async_view_resource(handle).pool_handle() == handle);
  THROWS(rmm_rs::logic_error, "pool of the driver", on_cuda().pool_handle());

  using type = rmm_rs::allocation_handle_type;
  options.export_handle_type = type::posix_file_descriptor | type::fabric;
  // The software device exports nothing.
  THROWS(rmm_rs::logic_error, "", device_resource::async_resource(options));
  options.export_handle_type = static_cast<type>(16);
  THROWS(rmm_rs::invalid_argument, "handles", device_resource::async_resource(options));
}

TEST(a_limit_counts_by_an_alignment_and_says_its_figures)
{
  auto const limiting = device_resource::limiting(on_cuda(), 8192, 4096);
  auto const above = device_resource::statistics(limiting);
  void* const pointer = above.allocate(legacy, 10);
  CHECK(above.get_allocated_bytes() == 4096);
  CHECK(above.get_allocation_limit() == 8192);
  above.deallocate(legacy, pointer, 10);
  CHECK(limiting.get_allocated_bytes() == 0);
  THROWS(rmm_rs::invalid_argument, "power of two", device_resource::limiting(on_cuda(), 8192, 3));
  THROWS(rmm_rs::logic_error, "limit", on_cuda().get_allocated_bytes());
  THROWS(rmm_rs::logic_error, "limit", on_cuda().get_allocation_limit());
}

TEST(bins_have_any_size_and_a_resource_of_the_program)
{
  auto const own = device_resource::statistics(on_cuda());
  auto const binning = device_resource::binning(on_cuda(), {{5000}, {std::uint64_t{1} << 16, own}});
  auto const counts = [&](std::size_t bytes) {
    void* const pointer = binning.allocate(legacy, bytes);
    auto const counted = own.get_statistics().current_bytes;
    binning.deallocate(legacy, pointer, bytes);
    return counted;
  };
  CHECK(counts(5000) == 0 && counts(6000) == 6000 && counts(70000) == 0);
  CHECK(device_resource::fixed_size(on_cuda(), {1000, 4}).get_block_size() == 1024);
  THROWS(rmm_rs::logic_error, "one size", on_cuda().get_block_size());
  THROWS(rmm_rs::invalid_argument, "exists", device_resource::binning(on_cuda(), {{256}, {200}}));
  auto const empty = null();
  THROWS(rmm_rs::invalid_argument, "null", device_resource::binning(on_cuda(), {{256, empty}}));
}

TEST(lines_of_a_log_go_to_a_function)
{
  std::vector<std::string> lines;
  std::mutex lock;
  auto const on_line = [&](char const* line) {
    std::lock_guard const held{lock};
    lines.emplace_back(line);
    if (lines.size() > 2) { throw std::runtime_error{"is dropped"}; }
  };
  {
    auto const logging = device_resource::logging(on_cuda(), on_line, RMM_RS_LOG_DEVICE);
    CHECK(lines.size() == 1 && lines[0] == logging.header());
    CHECK(logging.header() == "Thread,Time,Action,Pointer,Size,Stream,Device");
    void* const pointer = device_resource::statistics(logging).allocate(legacy, 100);
    CHECK(lines.size() == 2 && lines[1].ends_with(",100,0x1,0"));
    logging.deallocate(legacy, pointer, 100);
    logging.flush();
  }
  CHECK(lines.size() == 3 && lines[2].find(",free,") != std::string::npos);
  THROWS(rmm_rs::invalid_argument, "columns", device_resource::logging(on_cuda(), on_line, 8));
  THROWS(rmm_rs::invalid_argument, "null", device_resource::logging(null(), on_line));
  THROWS(rmm_rs::logic_error, "logs calls", on_cuda().flush());
  CHECK(on_cuda().header().empty());
  CHECK(lines.size() == 3);
}

TEST(outstanding_allocations_are_a_map_with_stacks)
{
  for (bool const stacks : {false, true}) {
    auto const tracking = device_resource::tracking(on_cuda(), stacks);
    std::vector<void*> pointers;
    for (std::size_t i = 1; i <= 30; ++i) { pointers.push_back(tracking.allocate(legacy, i)); }
    auto const all = tracking.get_outstanding_allocations();
    CHECK(all.size() == 30);
    for (std::size_t i = 1; i <= 30; ++i) {
      auto const& info = all.at(pointers[i - 1]);
      CHECK(info.allocation_size == i);
      CHECK(info.strace.empty() != stacks && info.place.empty() != stacks);
      tracking.deallocate(legacy, pointers[i - 1], i);
    }
    CHECK(tracking.get_outstanding_allocations().empty());
  }
  THROWS(rmm_rs::logic_error, "tracks", on_cuda().get_outstanding_allocations());
}

TEST(a_failure_callback_is_called_for_its_kinds_alone)
{
  using rmm_rs::failure_kind;
  auto const limited = device_resource::limiting(on_cuda(), 100);
  int calls = 0;
  auto const callback = [&](std::size_t) { return ++calls, false; };
  auto const of = [&](failure_kind kinds) {
    calls = 0;
    auto const resource = device_resource::failure_callback(limited, callback, kinds);
    THROWS(rmm_rs::out_of_memory, "", resource.allocate(legacy, 1000));
    return calls;
  };
  CHECK(of(failure_kind::bad_alloc) == 1);
  CHECK(of(failure_kind::refused | failure_kind::not_ready) == 0);
  THROWS(rmm_rs::invalid_argument,
         "kinds",
         device_resource::failure_callback(on_cuda(), callback, static_cast<failure_kind>(64)));
}

int main() { return check::run_all(); }
