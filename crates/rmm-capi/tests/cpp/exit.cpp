// A process that ends while everything is in use: a pool in a map of static storage, as RMM's for
// each device, memory that nobody frees, memory that static destructors free, threads that still
// allocate. It has to exit with status 0 and print nothing on the standard error stream.

#include <rmm_rs.hpp>

#include <atomic>
#include <cstdio>
#include <map>
#include <optional>
#include <thread>

using rmm_rs::device_resource;
using any = cuda::mr::any_resource<cuda::mr::device_accessible>;

namespace {

cuda::stream_ref const legacy{cudaStream_t{nullptr}};

std::map<int, any>& per_device()
{
  static std::map<int, any> map;
  return map;
}

/// A buffer that keeps its resource, like rmm::device_buffer.
struct buffer {
  any resource;
  std::size_t bytes;
  void* pointer;

  buffer(any from, std::size_t size)
    : resource{std::move(from)}, bytes{size}, pointer{resource.allocate(legacy, size, 256)}
  {
  }
  buffer(buffer const&) = delete;
  ~buffer() { resource.deallocate(legacy, pointer, bytes, 256); }
};

std::optional<buffer> in_static_storage;
std::optional<rmm_rs::stream> static_stream;
std::atomic<int> threads_at_work{0};

/// Destroyed last of all, since it is made first: it uses what is left.
struct last {
  std::optional<device_resource> kept;
  ~last()
  {
    if (!kept) { return; }
    void* const pointer = kept->allocate(legacy, 64);
    kept->deallocate(legacy, pointer, 64);
    auto const copy = *kept;
    (void)copy.trim();
    (void)device_resource::pool(copy);
  }
} at_the_end;

}  // namespace

int main()
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  at_the_end.kept = pool;
  per_device().insert_or_assign(0, any{device_resource::statistics(pool)});
  rmm_rs::set_per_device_resource(0, pool);
  in_static_storage.emplace(per_device().at(0), 4096);
  static_stream.emplace();
  (void)new buffer{per_device().at(0), 99};
  (void)pool.allocate(legacy, 77);

  for (int number = 0; number < 3; ++number) {
    std::thread{[pool] {
      auto const mine = pool;
      bool is_first = true;
      for (;;) {
        void* const pointer = mine.allocate(legacy, 1000);
        mine.deallocate(legacy, pointer, 1000);
        if (is_first) { threads_at_work.fetch_add(1); }
        is_first = false;
      }
    }}.detach();
  }
  while (threads_at_work.load() < 3) { std::this_thread::yield(); }
  std::puts("end of main");
  return 0;
}
