// A program without a test framework: a pool in RMM's map, and memory that is never freed, when the
// process ends.
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <cstdio>

int main()
{
  rmm::mr::set_current_device_resource(
    rmm::mr::pool_memory_resource{rmm::mr::cuda_memory_resource{}, std::size_t{1} << 20});
  auto const stream   = cuda::stream_ref{cudaStream_t{}};
  auto* const pointer = rmm::mr::get_current_device_resource_ref().allocate(stream, 100);
  std::puts(pointer != nullptr ? "allocated" : "no memory");
  return pointer != nullptr ? 0 : 1;
}
