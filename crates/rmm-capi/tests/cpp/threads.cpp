// Handles, pools and callbacks on many threads.

#include "check.hpp"

#include <thread>

using cuda::mr::device_accessible;
using rmm_rs::device_resource;
using any = cuda::mr::any_resource<device_accessible>;

namespace {

constexpr int threads = 8;
constexpr int rounds = 400;

template <class Act>
void on_threads(Act act)
{
  std::vector<std::thread> all;
  for (int number = 0; number < threads; ++number) { all.emplace_back([=] { act(number); }); }
  for (auto& thread : all) { thread.join(); }
}

void churn(any resource, cuda::stream_ref stream, int seed)
{
  std::vector<std::pair<void*, std::size_t>> held;
  for (int i = 0; i < rounds; ++i) {
    auto const bytes = static_cast<std::size_t>((seed * 7919 + i * 104729) % 20000 + 1);
    held.emplace_back(resource.allocate(stream, bytes, 256), bytes);
    if (i % 3 == 2) {
      for (auto const& [pointer, size] : held) { resource.deallocate(stream, pointer, size, 256); }
      held.clear();
    }
  }
  for (auto const& [pointer, size] : held) { resource.deallocate(stream, pointer, size, 256); }
}

/// A resource in C++ over one of this library, which therefore needs callbacks.
struct wrapped {
  device_resource inner;
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment)
  {
    return inner.allocate(stream, bytes, alignment);
  }
  void deallocate(
    cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    inner.deallocate(stream, pointer, bytes, alignment);
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment)
  {
    return inner.allocate_sync(bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    inner.deallocate_sync(pointer, bytes, alignment);
  }
  bool operator==(wrapped const&) const = default;
  friend void get_property(wrapped const&, device_accessible) noexcept {}
};

}  // namespace

TEST(threads_share_a_pool)
{
  auto const pool = device_resource::from_spec("statistics(pool(cuda))");
  on_threads([pool](int number) {
    rmm_rs::stream const stream;
    churn(any{pool}, number % 2 == 0 ? cuda::stream_ref{stream} : legacy, number);
  });
  CHECK(pool.get_statistics().current_bytes == 0);
  CHECK(pool.get_statistics().total_allocations == std::int64_t{threads} * rounds);
}

TEST(threads_share_an_upstream_in_cpp)
{
  auto const bottom = device_resource::from_spec("statistics(cuda)");
  {
    auto const upstream = rmm_rs::make_upstream(any{wrapped{bottom}});
    auto const pool = device_resource::pool(upstream);
    on_threads([pool, upstream](int number) {
      churn(any{number % 2 == 0 ? pool : upstream}, legacy, number);
    });
  }
  CHECK(bottom.get_statistics().current_bytes == 0);
}

TEST(references_are_counted_on_threads)
{
  auto const pool = device_resource::pool(device_resource::cuda_resource());
  on_threads([pool](int) {
    for (int i = 0; i < rounds; ++i) {
      auto copy = pool;
      any const erased{std::move(copy)};
      auto const again = rmm_rs::make_upstream(erased);
      // An older CCCL cannot say what it has erased, so that it is wrapped.
      CHECK((again == pool) == (CCCL_VERSION >= 3004000));
    }
  });
}

TEST(errors_belong_to_their_thread)
{
  auto const limited = device_resource::limiting(device_resource::cuda_resource(), 16);
  on_threads([limited](int number) {
    for (int i = 0; i < 50; ++i) {
      if (number % 2 == 0) {
        THROWS(rmm_rs::out_of_memory, "limit", limited.allocate(legacy, 1000));
      } else {
        THROWS(rmm_rs::invalid_argument, "alignment", limited.allocate(legacy, 1000, 3));
      }
    }
  });
}

int main() { return check::run_all(); }
