#include <rmm_rs.hpp>

#include <cstdio>

int main()
{
  using rmm_rs::device_resource;
  auto const pool = device_resource::pool(device_resource::cuda_resource(),
                                          {.initial_size = 64u << 20, .maximum_size = 1u << 30});
  auto const counted = device_resource::statistics(pool);

  rmm_rs::stream const stream;
  void* const pointer = counted.allocate(stream, 1000);
  // ... kernels on stream.get() ...
  counted.deallocate(stream, pointer, 1000);

  try {
    (void)counted.allocate(stream, std::size_t{1} << 40);
  } catch (rmm_rs::out_of_memory const& error) {
    std::printf("%s\n", error.what());
  }
  std::printf("peak: %lld bytes\n", static_cast<long long>(counted.get_statistics().peak_bytes));
  return counted.get_statistics().current_bytes == 0 ? 0 : 1;
}
