// A pool as an owner and as an argument of CCCL's types.

#include <cuda/memory_resource>
#include <rmm_rs.hpp>

#include <cstdio>

namespace {

void use(cuda::mr::resource_ref<cuda::mr::device_accessible> resource, cuda::stream_ref stream)
{
  void* const pointer = resource.allocate(stream, 1 << 20, 256);
  resource.deallocate(stream, pointer, 1 << 20, 256);
}

}  // namespace

int main()
{
  auto pool = rmm_rs::device_resource::from_spec("statistics(pool(cuda, max=64MiB))");
  rmm_rs::stream const stream;
  use(pool, stream);
  cuda::mr::any_resource<cuda::mr::device_accessible> erased{pool};
  use(erased, stream);
  auto const statistics = pool.get_statistics();
  std::printf("%lld\n", static_cast<long long>(statistics.peak_bytes));
  return statistics.current_bytes == 0 ? 0 : 1;
}
