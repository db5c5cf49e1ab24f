// RMM's adaptors over one of its pools, each as its users make it: `../src/adaptors.rs` has the same.
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
#include <functional>
#include <vector>

namespace peers {

struct adaptor {
  char const* name;
  std::function<allocator(rmm::mr::pool_memory_resource)> over;
};

inline rmm::mr::callback_memory_resource callback_to(rmm::mr::pool_memory_resource pool)
{
  auto const allocate = [pool](std::size_t bytes, cuda::stream_ref stream, void*) mutable {
    return pool.allocate(stream, bytes, alignment);
  };
  auto const deallocate = [pool](void* block, std::size_t bytes, cuda::stream_ref stream, void*) mutable {
    pool.deallocate(stream, block, bytes, alignment);
  };
  return {allocate, deallocate};
}

inline std::vector<adaptor> const& adaptors()
{
  using namespace rmm::mr;
  using pool = pool_memory_resource;
  using failure_callback_adaptor = failure_callback_resource_adaptor<rmm::out_of_memory>;
  static auto const never = [](std::size_t, void*) { return false; };
  static std::vector<adaptor> const all{
    {"aligned_256", [](pool up) { return of_resource(aligned_resource_adaptor{up, 256}); }},
    {"aligned_4096", [](pool up) { return of_resource(aligned_resource_adaptor{up, 4096}); }},
    {"callback", [](pool up) { return of_resource(callback_to(up)); }},
    {"failure_callback",
     [](pool up) { return of_resource(failure_callback_adaptor{up, never, nullptr}); }},
    {"limiting", [](pool up) { return of_resource(limiting_resource_adaptor{up, pool_bytes}); }},
    {"logging", [](pool up) { return of_resource(logging_resource_adaptor{up, "/dev/null"}); }},
    {"prefetch", [](pool up) { return of_resource(prefetch_resource_adaptor{up}); }},
    {"statistics", [](pool up) { return of_resource(statistics_resource_adaptor{up}); }},
    {"thread_safe", [](pool up) { return of_resource(thread_safe_resource_adaptor{up}); }},
    {"tracking", [](pool up) { return of_resource(tracking_resource_adaptor{up, false}); }},
  };
  return all;
}

}  // namespace peers
