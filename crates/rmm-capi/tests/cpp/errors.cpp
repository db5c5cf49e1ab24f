// Each status is the exception that it should be, and says what happened.

#include "check.hpp"

#include <thread>

using rmm_rs::device_resource;

namespace {

/// A resource that fails with a status.
template <std::int32_t Status>
device_resource failing()
{
  rmm_rs_callbacks table{};
  table.size = sizeof(table);
  table.properties = RMM_RS_DEVICE_ACCESSIBLE;
  table.allocate_sync = [](void*, std::size_t, std::size_t, void**) {
    rmm_rs_set_last_error("out of luck");
    return Status;
  };
  table.deallocate_sync = [](void*, void*, std::size_t, std::size_t) { return RMM_RS_OK; };
  return device_resource::from_callbacks(table);
}

}  // namespace

TEST(out_of_memory_is_std_bad_alloc_too)
{
  auto const resource = device_resource::limiting(device_resource::cuda_resource(), 100);
  THROWS(rmm_rs::out_of_memory, "", resource.allocate(legacy, 200));
  THROWS(rmm_rs::bad_alloc, "", resource.allocate(legacy, 200));
  THROWS(std::bad_alloc, "", resource.allocate(legacy, 200));
  THROWS(rmm_rs::out_of_memory, "", resource.allocate_sync(200));
  THROWS(rmm_rs::out_of_memory, "", resource.allocate(legacy, SIZE_MAX - 8));
}

TEST(the_details_of_a_failure_are_there)
{
  auto const cuda = device_resource::cuda_resource();
  auto const pool = device_resource::pool(cuda, {.maximum_size = 4 * MiB});
  THROWS(rmm_rs::out_of_memory, "", pool.allocate(legacy, 64 * MiB));
  CHECK(rmm_rs::last_error_detail().status == RMM_RS_OUT_OF_MEMORY);
  CHECK(rmm_rs::last_error_detail().requested == 64 * MiB);
  CHECK(rmm_rs::last_error_detail().limit == 4 * MiB);
  CHECK(!rmm_rs::last_error_message().empty());
  std::thread{[] { CHECK(rmm_rs::last_error_message().empty()); }}.join();
}

TEST(arguments_are_checked)
{
  auto const cuda = device_resource::cuda_resource();
  THROWS(rmm_rs::invalid_argument, "alignment", cuda.allocate(legacy, 8, 3));
  THROWS(std::invalid_argument, "alignment", cuda.allocate_sync(8, 0));
  THROWS(rmm_rs::invalid_argument, "spoon", device_resource::from_spec("spoon(cuda)"));
  THROWS(rmm_rs::invalid_argument, "", device_resource::binning(cuda, 9, 77));
  THROWS(rmm_rs::invalid_argument, "", device_resource::from_callbacks(rmm_rs_callbacks{}));
}

TEST(each_status_of_an_upstream_becomes_its_exception)
{
  THROWS(rmm_rs::out_of_memory,
         "out of luck",
         failing<RMM_RS_OUT_OF_MEMORY>().allocate(legacy, 8));
  auto const fails = failing<RMM_RS_ALLOCATION_FAILED>();
  THROWS(rmm_rs::bad_alloc, "out of luck", fails.allocate(legacy, 8));
  try {
    (void)fails.allocate_sync(8);
  } catch (rmm_rs::out_of_memory const&) {
    CHECK(!"a failure that is no lack of memory");
  } catch (std::bad_alloc const&) {
  }
  THROWS(rmm_rs::invalid_argument,
         "out of luck",
         failing<RMM_RS_INVALID_ARGUMENT>().allocate_sync(8));
  THROWS(std::bad_alloc, "out of luck", failing<RMM_RS_CUDA_ERROR>().allocate_sync(8));
  THROWS(std::bad_alloc, "out of luck", failing<RMM_RS_REFUSED>().allocate_sync(8));
}

TEST(the_mapping_of_codes_is_complete)
{
  auto const thrown = [](std::int32_t status) {
    return [status] {
      rmm_rs_set_last_error("because");
      rmm_rs::detail::throw_status(status);
    };
  };
  THROWS(rmm_rs::out_of_memory, "because", thrown(RMM_RS_OUT_OF_MEMORY)(), 0);
  THROWS(rmm_rs::bad_alloc, "because", thrown(RMM_RS_ALLOCATION_FAILED)(), 0);
  THROWS(rmm_rs::invalid_argument, "because", thrown(RMM_RS_INVALID_ARGUMENT)(), 0);
  THROWS(rmm_rs::cuda_error, "because", thrown(RMM_RS_CUDA_ERROR)(), 0);
  THROWS(rmm_rs::logic_error, "because", thrown(RMM_RS_REFUSED)(), 0);
  THROWS(rmm_rs::logic_error, "because", thrown(RMM_RS_PANIC)(), 0);
  THROWS(rmm_rs::logic_error, "because", thrown(77)(), 0);
}

TEST(a_free_that_fails_throws_nothing)
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  void* const pointer = pool.allocate(legacy, 100);
  pool.deallocate(legacy, pointer, 100, 3);
  CHECK(rmm_rs::last_error_message().find("alignment") != std::string::npos);
  CHECK(pool.get_pool_statistics().live_bytes > 0);
  pool.deallocate(legacy, pointer, 100);
  CHECK(pool.get_pool_statistics().live_bytes == 0);
}

int main() { return check::run_all(); }
