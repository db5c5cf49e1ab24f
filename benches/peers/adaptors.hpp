// RMM's adaptors over one of its pools, or over nothing, each as its users make it: `../src/adaptors.rs` has the same.
#pragma once

#include "allocators.hpp"

#include <rmm/error.hpp>
#include <rmm/mr/aligned_resource_adaptor.hpp>
#include <rmm/mr/callback_memory_resource.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/logging_resource_adaptor.hpp>
#include <rmm/mr/prefetch_resource_adaptor.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/mr/thread_safe_resource_adaptor.hpp>
#include <rmm/mr/tracking_resource_adaptor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace peers {

// Does nothing, so that only the way to it is timed: one address for all blocks, a multiple of 2 MiB, and no memory. `../src/nothing.rs` does
// the same.
struct nothing {
  static void* block()
  {
    auto address = std::uintptr_t{2} << 20;
    asm volatile("" : "+r"(address));
    return reinterpret_cast<void*>(address);
  }
  static void forget(void* block) { asm volatile("" : : "r"(block)); }

  void* allocate_sync(std::size_t, std::size_t = alignment) { return block(); }
  void deallocate_sync(void* block, std::size_t, std::size_t = alignment) noexcept { forget(block); }
  void* allocate(cuda::stream_ref, std::size_t, std::size_t = alignment) { return block(); }
  void deallocate(cuda::stream_ref, void* block, std::size_t, std::size_t = alignment) noexcept
  {
    forget(block);
  }
  bool operator==(nothing const&) const { return true; }
  friend void get_property(nothing const&, cuda::mr::device_accessible) noexcept {}
};

template <typename Upstream>
struct adaptor {
  char const* name;
  std::function<allocator(Upstream)> over;
};

template <typename Upstream>
rmm::mr::callback_memory_resource callback_to(Upstream up)
{
  auto const allocate = [up](std::size_t bytes, cuda::stream_ref stream, void*) mutable {
    return up.allocate(stream, bytes, alignment);
  };
  auto const deallocate = [up](void* block, std::size_t bytes, cuda::stream_ref stream, void*) mutable {
    up.deallocate(stream, block, bytes, alignment);
  };
  return {allocate, deallocate};
}

template <typename Upstream>
std::vector<adaptor<Upstream>> const& adaptors()
{
  using namespace rmm::mr;
  using failure_callback_adaptor = failure_callback_resource_adaptor<rmm::out_of_memory>;
  static auto const never = [](std::size_t, void*) { return false; };
  static std::vector<adaptor<Upstream>> const all{
    {"aligned_256", [](Upstream up) { return of_resource(aligned_resource_adaptor{up, 256}); }},
    {"aligned_4096", [](Upstream up) { return of_resource(aligned_resource_adaptor{up, 4096}); }},
    {"callback", [](Upstream up) { return of_resource(callback_to(up)); }},
    {"failure_callback",
     [](Upstream up) { return of_resource(failure_callback_adaptor{up, never, nullptr}); }},
    {"limiting", [](Upstream up) { return of_resource(limiting_resource_adaptor{up, pool_bytes}); }},
    {"logging", [](Upstream up) { return of_resource(logging_resource_adaptor{up, "/dev/null"}); }},
    {"prefetch", [](Upstream up) { return of_resource(prefetch_resource_adaptor{up}); }},
    {"statistics", [](Upstream up) { return of_resource(statistics_resource_adaptor{up}); }},
    {"thread_safe", [](Upstream up) { return of_resource(thread_safe_resource_adaptor{up}); }},
    {"tracking", [](Upstream up) { return of_resource(tracking_resource_adaptor{up, false}); }},
  };
  return all;
}

}  // namespace peers
