// A process that ends with a pool of this library in RMM's map of resources, buffers that nobody
// frees or that static destructors free, and threads that still allocate. It has to exit with
// status 0.

#include <rmm_rs.hpp>

#include <rmm/cuda_stream.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/per_device_resource.hpp>

#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>

using rmm_rs::device_resource;

namespace {

cuda::stream_ref const legacy{cudaStream_t{nullptr}};
std::unique_ptr<rmm::device_buffer> in_static_storage;
std::unique_ptr<rmm::cuda_stream> static_stream;
std::atomic<int> threads_at_work{0};

}  // namespace

int main()
{
  (void)rmm::mr::set_current_device_resource(
    device_resource::pool(device_resource::cuda_resource()));
  in_static_storage = std::make_unique<rmm::device_buffer>(4096, legacy);
  static_stream = std::make_unique<rmm::cuda_stream>();
  { rmm::device_buffer const used{4096, *static_stream}; }
  (void)new rmm::device_buffer{99, legacy};
  for (int number = 0; number < 3; ++number) {
    std::thread{[] {
      auto const resource = rmm::mr::get_current_device_resource_ref();
      device_resource const mine = rmm_rs::make_upstream(resource);
      { rmm::device_buffer const first{1000, legacy, resource}; }
      threads_at_work.fetch_add(1);
      for (;;) { mine.deallocate(legacy, mine.allocate(legacy, 1000), 1000); }
    }}.detach();
  }
  while (threads_at_work.load() < 3) { std::this_thread::yield(); }
  std::puts("end of main");
  return 0;
}
