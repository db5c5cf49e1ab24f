// Temporary memory of Thrust's algorithms from our resources. The algorithms themselves need nvcc;
// what they call for temporary memory is compiled by every compiler.

#include "check.hpp"

#include <thrust/memory.h>
#include <thrust/system/cuda/execution_policy.h>

#include <cstddef>
#include <utility>

/// What Thrust's policies take: bytes of a resource, in the order of a stream.
class temporary_memory {
 public:
  using value_type = char;

  temporary_memory(rmm_rs::device_resource resource, cuda::stream_ref stream)
    : resource_{std::move(resource)}, stream_{stream}
  {
  }

  char* allocate(std::size_t bytes)
  {
    return static_cast<char*>(resource_.allocate(stream_, bytes, 256));
  }

  void deallocate(char* pointer, std::size_t bytes)
  {
    resource_.deallocate(stream_, pointer, bytes, 256);
  }

 private:
  rmm_rs::device_resource resource_;
  cuda::stream_ref stream_;
};

namespace {

template <typename Policy>
void takes_and_returns(Policy policy, rmm_rs::device_resource const& counted)
{
  auto const live = [&] { return counted.get_statistics().current_bytes; };
  auto const memory = thrust::get_temporary_buffer<int>(policy, 1000);
  CHECK(memory.second == 1000);
  CHECK(live() == 4000);
  thrust::return_temporary_buffer(policy, memory.first, memory.second);
  CHECK(live() == 0);
}

}  // namespace

TEST(policies_take_temporary_memory_from_a_resource)
{
  auto const counted = rmm_rs::device_resource::from_spec("statistics(pool(cuda))");
  rmm_rs::stream const stream;
  temporary_memory memory{counted, stream};
  auto* const handle = cuda::stream_ref{stream}.get();
  takes_and_returns(thrust::cuda::par(memory).on(handle), counted);
  takes_and_returns(thrust::cuda::par_nosync(memory).on(handle), counted);
}

TEST(an_algorithm_learns_that_there_is_no_memory)
{
  auto const pool = rmm_rs::device_resource::from_spec("pool(cuda, max=1MiB)");
  rmm_rs::stream const stream;
  temporary_memory memory{pool, stream};
  auto policy = thrust::cuda::par_nosync(memory).on(cuda::stream_ref{stream}.get());
  THROWS(rmm_rs::out_of_memory, "limit 1.0 MiB", thrust::get_temporary_buffer<char>(policy, 2u << 20));
}

int main() { return check::run_all(); }
