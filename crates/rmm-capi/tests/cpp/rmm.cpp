// RMM's own classes above and below resources of this library. Linked with librmm, but without a
// call of the CUDA runtime, which cannot run on the software device: those are in tests/gpu.

#include "check.hpp"

#if !RMM_RS_HAS_RMM
#error "this program needs RMM's headers"
#endif

#include <rmm/mr/aligned_resource_adaptor.hpp>
#include <rmm/mr/callback_memory_resource.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/mr/tracking_resource_adaptor.hpp>
#include <rmm/resource_ref.hpp>

using cuda::mr::device_accessible;
using rmm_rs::device_resource;
using any = cuda::mr::any_resource<device_accessible>;

namespace {

device_resource pool()
{
  return device_resource::pool(device_resource::cuda_resource());
}

}  // namespace

TEST(rmm_adaptors_stand_on_a_pool)
{
  auto resource = device_resource::statistics(pool());
  rmm::device_async_resource_ref const reference{resource};
  rmm::mr::statistics_resource_adaptor statistics{reference};
  rmm::mr::tracking_resource_adaptor tracking{statistics, true};
  rmm::mr::limiting_resource_adaptor limited{tracking, 4 * MiB};

  void* const pointer = limited.allocate(legacy, MiB, 256);
  CHECK(statistics.get_bytes_counter().value == static_cast<std::int64_t>(MiB));
  CHECK(tracking.get_allocated_bytes() == MiB);
  CHECK(resource.get_statistics().current_bytes == static_cast<std::int64_t>(MiB));
  limited.deallocate(legacy, pointer, MiB, 256);
  CHECK(tracking.get_allocated_bytes() == 0);
  CHECK(resource.get_statistics().current_bytes == 0);
}

TEST(an_adaptor_stands_on_rmm_adaptors)
{
  auto bottom = device_resource::cuda_resource();
  rmm::mr::statistics_resource_adaptor statistics{rmm::device_async_resource_ref{bottom}};
  {
    auto const upper = device_resource::tracking(rmm_rs::make_upstream(statistics));
    void* const pointer = upper.allocate(legacy, 4096);
    CHECK(statistics.get_bytes_counter().value == 4096);
    CHECK(upper.outstanding_bytes() == 4096);
    upper.deallocate(legacy, pointer, 4096);
  }
  CHECK(statistics.get_bytes_counter().value == 0);
}

TEST(exceptions_are_those_of_rmm)
{
  auto const limited = device_resource::limiting(pool(), 100);
  THROWS(rmm::out_of_memory, "out_of_memory", limited.allocate(legacy, 5000));
  THROWS(rmm::bad_alloc, "bad_alloc", limited.allocate(legacy, 5000));
  THROWS(rmm::invalid_argument, "alignment", limited.allocate(legacy, 5000, 3));
  THROWS(rmm::logic_error, "", device_resource::cuda_resource().trim());
}

TEST(rmm_out_of_memory_stays_what_it_is_through_a_stack)
{
  auto bottom = device_resource::cuda_resource();
  rmm::mr::limiting_resource_adaptor limited{rmm::device_async_resource_ref{bottom}, 1000};
  auto const upper = rmm_rs::make_upstream(limited);
  THROWS(rmm::out_of_memory, "Exceeded memory limit", upper.allocate(legacy, 5000));
  auto resource = device_resource::pool(upper);
  rmm::mr::statistics_resource_adaptor statistics{rmm::device_async_resource_ref{resource}};
  THROWS(rmm::out_of_memory, "upstream", statistics.allocate(legacy, 5000, 256));
}

TEST(rmm_callbacks_stand_above_and_below)
{
  auto bottom = device_resource::statistics(device_resource::cuda_resource());
  rmm::mr::callback_memory_resource callbacks{
    [](std::size_t bytes, cuda::stream_ref stream, void* resource) {
      return static_cast<device_resource*>(resource)->allocate(stream, bytes);
    },
    [](void* pointer, std::size_t bytes, cuda::stream_ref stream, void* resource) {
      static_cast<device_resource*>(resource)->deallocate(stream, pointer, bytes);
    },
    &bottom,
    &bottom};
  auto const upper = rmm_rs::make_upstream(callbacks);
  void* const pointer = upper.allocate(legacy, 4096);
  CHECK(bottom.get_statistics().current_bytes == 4096);
  upper.deallocate(legacy, pointer, 4096);
  CHECK(bottom.get_statistics().current_bytes == 0);
}

TEST(references_of_rmm_compare)
{
  auto first = pool();
  auto copy = first;
  auto second = pool();
  CHECK(rmm::device_async_resource_ref{first} == rmm::device_async_resource_ref{copy});
  CHECK(rmm::device_async_resource_ref{first} != rmm::device_async_resource_ref{second});
  any const erased{rmm::device_async_resource_ref{first}};
  CHECK(rmm_rs::make_upstream(erased).get() == first.get());
}

int main() { return check::run_all(); }
