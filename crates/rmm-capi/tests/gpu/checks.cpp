// RMM's containers and adaptors over a pool of this library, on a GPU: what is written is what is
// read, while memory is freed and reused by streams and threads. For compute-sanitizer too.

#include "../cpp/check.hpp"

#include <cuda_runtime_api.h>
#include <rmm/cuda_stream.hpp>
#include <rmm/cuda_stream_pool.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/device_scalar.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/mr/tracking_resource_adaptor.hpp>

#include <algorithm>
#include <deque>
#include <random>
#include <thread>

using rmm_rs::device_resource;

namespace {

constexpr std::size_t GiB = std::size_t{1} << 30;

void succeeds(cudaError_t code)
{
  if (code != cudaSuccess) { throw std::runtime_error{cudaGetErrorString(code)}; }
}

void wait(cuda::stream_ref stream) { succeeds(cudaStreamSynchronize(stream.get())); }

device_resource pool(rmm_rs::stream_policy policy = rmm_rs::stream_policy::checked)
{
  return device_resource::pool(device_resource::cuda_resource(),
                               {.initial_size = GiB / 4, .policy = policy});
}

/// Fills vectors with bytes of their own, frees some, and reads the others back.
void churn(rmm::device_async_resource_ref resource, cuda::stream_ref stream, unsigned seed)
{
  struct held {
    rmm::device_uvector<unsigned char> vector;
    unsigned char byte;
  };
  std::mt19937 random{seed};
  std::deque<held> all;
  std::vector<unsigned char> host;
  auto const check = [&](held const& one) {
    host.assign(one.vector.size(), 0);
    succeeds(cudaMemcpyAsync(host.data(),
                             one.vector.data(),
                             host.size(),
                             cudaMemcpyDeviceToHost,
                             stream.get()));
    wait(stream);
    CHECK(std::all_of(host.begin(), host.end(), [&](auto byte) { return byte == one.byte; }));
  };
  for (int round = 0; round < 300; ++round) {
    auto const bytes = std::size_t{1} << random() % 20;
    auto const byte = static_cast<unsigned char>(random() % 255 + 1);
    rmm::device_uvector<unsigned char> vector{bytes + random() % bytes, stream, resource};
    succeeds(cudaMemsetAsync(vector.data(), byte, vector.size(), stream.get()));
    all.push_back({std::move(vector), byte});
    while (all.size() > 12) {
      if (random() % 4 == 0) { check(all.front()); }
      all.pop_front();
    }
  }
  for (auto const& one : all) { check(one); }
}

template <class Act>
void on_threads(int threads, Act act)
{
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number) {
    all.emplace_back([act, number]() mutable { act(number); });
  }
  for (auto& thread : all) { thread.join(); }
}

}  // namespace

TEST(vectors_keep_their_bytes_on_each_kind_of_stream)
{
  auto resource = device_resource::statistics(pool());
  for (auto const handle : {cudaStream_t{nullptr}, cudaStreamLegacy, cudaStreamPerThread}) {
    churn(resource, cuda::stream_ref{handle}, 1);
  }
  {
    rmm::cuda_stream const stream;
    churn(resource, stream, 2);
  }
  rmm_rs::stream const own;
  churn(resource, own, 3);
  CHECK(resource.get_statistics().current_bytes == 0);
}

TEST(threads_on_streams_of_their_own_keep_their_bytes)
{
  auto resource = device_resource::statistics(pool());
  on_threads(8, [resource](int number) mutable {
    rmm::cuda_stream const stream;
    churn(resource, stream, static_cast<unsigned>(number));
  });
  CHECK(resource.get_statistics().current_bytes == 0);
}

TEST(threads_on_the_default_stream_keep_their_bytes)
{
  auto resource = pool();
  on_threads(8, [resource](int number) mutable {
    churn(resource, legacy, static_cast<unsigned>(number));
  });
  CHECK(resource.get_pool_statistics().live_bytes == 0);
}

TEST(a_pool_of_streams_may_be_kept)
{
  rmm::cuda_stream_pool streams{8};
  auto resource = pool(rmm_rs::stream_policy::kept);
  on_threads(8, [resource, &streams](int number) mutable {
    churn(resource,
          streams.get_stream(static_cast<std::size_t>(number)),
          static_cast<unsigned>(number));
  });
  for (std::size_t number = 0; number < 8; ++number) {
    rmm_rs::forget_stream(cuda::stream_ref{streams.get_stream(number)}.get());
  }
}

TEST(memory_freed_on_one_stream_is_not_overwritten_early_by_another)
{
  // The first stream still reads the block when the second one asks for memory, and the pool has no
  // other block of that size.
  auto resource = device_resource::pool(device_resource::cuda_resource(),
                                        {.maximum_size = 72 * MiB});
  rmm::cuda_stream const first;
  rmm::cuda_stream const second;
  constexpr std::size_t bytes = 32 * MiB;
  std::vector<unsigned char> host(bytes);
  for (int round = 0; round < 20; ++round) {
    rmm::device_uvector<unsigned char> copy{bytes, first, resource};
    {
      rmm::device_uvector<unsigned char> source{bytes, first, resource};
      succeeds(cudaMemsetAsync(source.data(), 0x5a, bytes, cuda::stream_ref{first}.get()));
      for (int i = 0; i < 20; ++i) {
        succeeds(cudaMemcpyAsync(copy.data(),
                                 source.data(),
                                 bytes,
                                 cudaMemcpyDeviceToDevice,
                                 cuda::stream_ref{first}.get()));
      }
    }
    {
      rmm::device_uvector<unsigned char> thief{bytes, second, resource};
      succeeds(
        cudaMemsetAsync(thief.data(), 0xff, thief.size(), cuda::stream_ref{second}.get()));
    }
    succeeds(cudaMemcpyAsync(
      host.data(), copy.data(), bytes, cudaMemcpyDeviceToHost, cuda::stream_ref{first}.get()));
    wait(first);
    CHECK(std::all_of(host.begin(), host.end(), [](auto byte) { return byte == 0x5a; }));
  }
}

TEST(rmm_adaptors_stand_on_a_pool)
{
  auto bottom = pool();
  rmm::mr::statistics_resource_adaptor statistics{rmm::device_async_resource_ref{bottom}};
  rmm::mr::tracking_resource_adaptor tracking{statistics, true};
  rmm::mr::limiting_resource_adaptor limited{tracking, GiB};
  churn(limited, legacy, 4);
  CHECK(statistics.get_bytes_counter().value == 0);
  CHECK(statistics.get_allocations_counter().total >= 300);
  CHECK(tracking.get_allocated_bytes() == 0);
  THROWS(rmm::out_of_memory, "", rmm::device_buffer(2 * GiB, legacy, limited));
  THROWS(rmm::out_of_memory, "", rmm::device_buffer(std::size_t{1} << 50, legacy, bottom));
}

TEST(rmm_suballocators_stand_on_a_pool_and_it_on_them)
{
  auto bottom = pool();
  rmm::device_async_resource_ref const reference{bottom};
  {
    rmm::mr::pool_memory_resource theirs{reference, 64 * MiB};
    churn(theirs, legacy, 5);
    rmm::mr::arena_memory_resource arena{reference, 128 * MiB};
    churn(arena, legacy, 6);
    rmm::mr::binning_memory_resource bins{reference, 10, 16};
    churn(bins, legacy, 7);
  }
  CHECK(bottom.get_pool_statistics().live_bytes == 0);
  rmm::mr::pool_memory_resource theirs{rmm::mr::cuda_memory_resource{}, 256 * MiB};
  auto ours = device_resource::pool(rmm_rs::make_upstream(theirs));
  churn(ours, legacy, 8);
}

TEST(every_suballocator_keeps_bytes)
{
  auto const cuda = device_resource::cuda_resource();
  for (auto resource : {device_resource::arena(cuda, {.arena_size = GiB / 4}),
                        device_resource::binning(cuda, 8, 21),
                        device_resource::fixed_size(cuda, {.block_size = 2 * MiB}),
                        device_resource::pool(device_resource::virtual_resource()),
                        device_resource::async_resource()}) {
    churn(resource, legacy, 9);
    rmm::cuda_stream const stream;
    churn(resource, stream, 10);
  }
}

TEST(the_current_resource_serves_containers)
{
  auto const resource = device_resource::statistics(pool());
  auto const previous = rmm::mr::set_current_device_resource(resource);
  {
    int const value = 42;
    rmm::device_scalar<int> scalar{value, legacy};
    CHECK(scalar.value(legacy) == 42);
    rmm::device_uvector<int> vector{1000, legacy};
    vector.set_element_to_zero_async(7, legacy);
    CHECK(vector.element(7, legacy) == 0);
    vector.resize(100'000, legacy);
    rmm::device_buffer buffer{MiB, legacy};
    CHECK(resource.get_statistics().current_bytes > static_cast<std::int64_t>(MiB));
    CHECK(rmm::mr::get_current_device_resource_ref() == buffer.memory_resource());
  }
  CHECK(resource.get_statistics().current_bytes == 0);
  (void)rmm::mr::set_current_device_resource(previous);
}

int main() { return check::run_all(); }
