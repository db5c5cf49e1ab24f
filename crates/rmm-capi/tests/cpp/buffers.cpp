// CCCL's own containers over our resources.

#include "check.hpp"

// That of CCCL 3.3 does not compile without nvcc.
#if CCCL_VERSION >= 3005000
#include <cuda/buffer>

using cuda::mr::device_accessible;
using cuda::mr::host_accessible;
using rmm_rs::device_resource;
using rmm_rs::host_device_resource;

namespace {

std::int64_t live(device_resource const& resource)
{
  return resource.get_statistics().current_bytes;
}

}  // namespace

TEST(a_buffer_allocates_from_the_resource_and_frees_on_its_stream)
{
  auto const counted = device_resource::from_spec("statistics(pool(cuda))");
  rmm_rs::stream const stream;
  {
    auto buffer = cuda::make_buffer<int>(stream, counted, 1000, cuda::no_init);
    static_assert(std::is_same_v<decltype(buffer), cuda::buffer<int, device_accessible>>);
    CHECK(buffer.size() == 1000);
    CHECK(live(counted) == 4000);
    auto const moved = std::move(buffer);
    CHECK(live(counted) == 4000);
  }
  CHECK(live(counted) == 0);
}

TEST(a_buffer_of_pinned_memory_is_of_both)
{
  auto const pinned = host_device_resource::pool(host_device_resource::pinned_resource());
  rmm_rs::stream const stream;
  auto buffer = cuda::make_buffer<int>(stream, pinned, 10, cuda::no_init);
  static_assert(
    std::is_same_v<decltype(buffer), cuda::buffer<int, device_accessible, host_accessible>>);
  cuda::stream_ref{stream}.sync();
  for (int& element : buffer) { element = 7; }
  CHECK(buffer.get_unsynchronized(9) == 7);
}

TEST(a_buffer_says_that_there_is_no_memory)
{
  auto const pool = device_resource::from_spec("pool(cuda, max=1MiB)");
  rmm_rs::stream const stream;
  auto const make = [&] { return cuda::make_buffer<char>(stream, pool, 2u << 20, cuda::no_init); };
  THROWS(rmm_rs::out_of_memory, "limit 1.0 MiB", make());
}
#else
TEST(an_older_cccl_has_no_buffer_for_this_compiler)
{
  rmm_rs::stream const stream;
  CHECK(stream.get() != nullptr);
}
#endif

int main() { return check::run_all(); }
