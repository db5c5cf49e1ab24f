// What a pair of allocation and free costs: pools of this library and of RMM, in one run, each
// behind the interfaces by which C++ calls it. Prints a table in Markdown: nanoseconds per pair and
// thread, the median of the rounds.

#include <rmm_rs.hpp>

#include <cuda_runtime_api.h>
#include <rmm/cuda_stream.hpp>
#include <rmm/mr/callback_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/resource_ref.hpp>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using rmm_rs::device_resource;

namespace {

constexpr std::size_t pool_bytes = std::size_t{4} << 30;
constexpr int rounds = 9;

int pairs()
{
  auto const* const text = std::getenv("PAIRS");
  return text == nullptr ? 20'000 : std::atoi(text);
}

/// One block at a time.
template <class Resource>
void single(Resource& resource, cuda::stream_ref stream, int count)
{
  for (int i = 0; i < count; ++i) {
    void* const pointer = resource.allocate(stream, 1024, 256);
    resource.deallocate(stream, pointer, 1024, 256);
  }
}

/// Sixteen live blocks of mixed sizes, the oldest of which is freed.
template <class Resource>
void mixed(Resource& resource, cuda::stream_ref stream, int count)
{
  std::array<void*, 16> pointers{};
  std::array<std::size_t, 16> sizes{};
  auto const free = [&](std::size_t slot) {
    void* const pointer = pointers[slot];
    if (pointer != nullptr) { resource.deallocate(stream, pointer, sizes[slot], 256); }
  };
  for (int i = 0; i < count; ++i) {
    auto const slot = static_cast<std::size_t>(i) % pointers.size();
    free(slot);
    sizes[slot] = std::size_t{256} << static_cast<unsigned>(i * 7 % 11);
    pointers[slot] = resource.allocate(stream, sizes[slot], 256);
  }
  for (std::size_t slot = 0; slot < pointers.size(); ++slot) { free(slot); }
}

/// Nanoseconds per pair of each thread, the median of the rounds. The first round is not counted.
template <class Work>
double measure(int threads, bool has_own_streams, Work work)
{
  using clock = std::chrono::steady_clock;
  std::vector<double> results;
  std::vector<double> seconds(static_cast<std::size_t>(threads));
  auto const count = pairs();
  std::barrier start{threads};
  auto const run = [&](int number) {
    std::optional<rmm::cuda_stream> own;
    cuda::stream_ref stream{cudaStream_t{nullptr}};
    if (has_own_streams) { stream = own.emplace(rmm::cuda_stream::flags::non_blocking); }
    for (int round = 0; round <= rounds; ++round) {
      start.arrive_and_wait();
      auto const begin = clock::now();
      work(stream, count);
      auto const end = clock::now();
      std::chrono::duration<double> const taken = end - begin;
      seconds[static_cast<std::size_t>(number)] = taken.count();
      start.arrive_and_wait();
      if (number == 0 && round > 0) {
        double sum = 0;
        for (auto const each : seconds) { sum += each; }
        results.push_back(sum / threads / count * 1e9);
      }
      start.arrive_and_wait();
    }
    (void)cudaStreamSynchronize(stream.get());
    if (has_own_streams) { rmm_rs::forget_stream(stream.get()); }
  };
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number) { all.emplace_back(run, number); }
  for (auto& thread : all) { thread.join(); }
  std::sort(results.begin(), results.end());
  return results[results.size() / 2];
}

/// One row: threads 1 and 16, the default stream and own streams, both workloads.
template <class Make>
void row(char const* name, Make make)
{
  std::printf("| %s |", name);
  for (bool const has_own_streams : {false, true}) {
    for (int const threads : {1, 16}) {
      for (bool const is_mixed : {false, true}) {
        auto resource = make();
        auto const nanoseconds =
          measure(threads, has_own_streams, [&](cuda::stream_ref stream, int count) {
            is_mixed ? mixed(resource, stream, count) : single(resource, stream, count);
          });
        std::printf(" %.0f |", nanoseconds);
        std::fflush(stdout);
      }
    }
  }
  std::printf("\n");
}

/// The C functions, without the class.
struct c_functions {
  device_resource resource;

  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment)
  {
    void* pointer = nullptr;
    if (rmm_rs_resource_allocate(resource.get(), stream.get(), bytes, alignment, &pointer) != 0) {
      std::abort();
    }
    return pointer;
  }
  void deallocate(cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment)
  {
    (void)rmm_rs_resource_deallocate(resource.get(), stream.get(), pointer, bytes, alignment);
  }
};

/// A resource behind RMM's reference, which is how its containers call.
template <class Resource>
struct behind_reference {
  Resource resource;
  rmm::device_async_resource_ref reference{resource};

  explicit behind_reference(Resource made) : resource{std::move(made)} {}
  behind_reference(behind_reference const&) = delete;
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment)
  {
    return reference.allocate(stream, bytes, alignment);
  }
  void deallocate(
    cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    reference.deallocate(stream, pointer, bytes, alignment);
  }
};

/// RMM's resource of callbacks over a pool of this library: how one was plugged in without a class.
struct callbacks {
  device_resource resource;
  rmm::mr::callback_memory_resource callback{
    [](std::size_t bytes, cuda::stream_ref stream, void* self) {
      return static_cast<device_resource*>(self)->allocate(stream, bytes);
    },
    [](void* pointer, std::size_t bytes, cuda::stream_ref stream, void* self) {
      static_cast<device_resource*>(self)->deallocate(stream, pointer, bytes);
    },
    &resource,
    &resource};

  explicit callbacks(device_resource made) : resource{std::move(made)} {}
  callbacks(callbacks const&) = delete;
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment)
  {
    return callback.allocate(stream, bytes, alignment);
  }
  void deallocate(
    cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    callback.deallocate(stream, pointer, bytes, alignment);
  }
};

device_resource ours(rmm_rs::stream_policy policy)
{
  return device_resource::pool(device_resource::cuda_resource(),
                               {.initial_size = pool_bytes, .policy = policy});
}

}  // namespace

int main()
{
  using rmm_rs::stream_policy;
  cudaDeviceProp device{};
  int driver = 0;
  if (cudaGetDeviceProperties(&device, 0) != cudaSuccess ||
      cudaDriverGetVersion(&driver) != cudaSuccess) {
    std::fputs("no GPU\n", stderr);
    return EXIT_FAILURE;
  }
  std::printf("%s, driver %d.%d, %u processors, rmm-rs %s, RMM 26.10\n\n",
              device.name,
              driver / 1000,
              driver % 1000 / 10,
              std::thread::hardware_concurrency(),
              rmm_rs::version());
  std::puts(
    "Nanoseconds per pair and thread. One: one block of 1 KiB; mix: 16 live blocks of 256 B to "
    "256 KiB.\n\n"
    "| | default stream, 1 thread, one | mix | 16 threads, one | mix "
    "| own streams, 1 thread, one | mix | 16 threads, one | mix |\n"
    "|---|---|---|---|---|---|---|---|---|");
  row("ours, C", [] { return c_functions{ours(stream_policy::kept)}; });
  row("ours, C++ class", [] { return ours(stream_policy::kept); });
  row("ours, in resource_ref", [] {
    return behind_reference<device_resource>{ours(stream_policy::kept)};
  });
  row("ours, in resource_ref, streams checked", [] {
    return behind_reference<device_resource>{ours(stream_policy::checked)};
  });
  row("ours, in RMM's callback_memory_resource", [] {
    return callbacks{ours(stream_policy::kept)};
  });
  row("RMM's pool, in resource_ref", [] {
    return behind_reference<rmm::mr::pool_memory_resource>{
      rmm::mr::pool_memory_resource{rmm::mr::cuda_memory_resource{}, pool_bytes}};
  });
  row("RMM's cuda_async, in resource_ref", [] {
    return behind_reference<rmm::mr::cuda_async_memory_resource>{
      rmm::mr::cuda_async_memory_resource{pool_bytes}};
  });
  return EXIT_SUCCESS;
}
