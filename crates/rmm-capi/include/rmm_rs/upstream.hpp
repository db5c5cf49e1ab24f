// C++ resources as upstreams of resources of this library.
#ifndef RMM_RS_UPSTREAM_HPP
#define RMM_RS_UPSTREAM_HPP

#include "resource.hpp"

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

namespace detail {

/// A resource of CCCL behind the callbacks of C, counted. No exception leaves a callback.
template <class Any>
class callbacks {
 public:
  [[nodiscard]] static rmm_rs_resource const* make(Any resource, std::uint32_t properties)
  {
    auto* const self = new callbacks{std::move(resource)};
    rmm_rs_callbacks table{};
    table.size = sizeof(table);
    table.properties = properties;
    table.context = self;
    table.allocate_sync = &allocate_sync;
    table.deallocate_sync = &deallocate_sync;
    table.equal = &equal;
    table.retain = &retain;
    table.release = &release;
    if constexpr (::cuda::mr::resource<Any>) {
      table.flags = RMM_RS_CALLBACKS_STREAM_ORDERED;
      table.allocate = &allocate;
      table.deallocate = &deallocate;
    }
    rmm_rs_resource const* handle = nullptr;
    auto const status = rmm_rs_resource_from_callbacks(&table, &handle);
    release(self);
    check(status);
    return handle;
  }

 private:
  explicit callbacks(Any resource) : resource_{std::move(resource)} {}

  static Any& of(void* context) noexcept { return static_cast<callbacks*>(context)->resource_; }
  static ::cuda::stream_ref stream_of(void* stream) noexcept
  {
    return ::cuda::stream_ref{static_cast<cudaStream_t>(stream)};
  }

  template <class Act>
  static std::int32_t guarded(Act act) noexcept
  {
    try {
      act();
      return RMM_RS_OK;
    } catch (...) {
      return status_of_exception();
    }
  }

  static std::int32_t allocate(
    void* context, void* stream, std::size_t bytes, std::size_t alignment, void** out) noexcept
  {
    return guarded([&] { *out = of(context).allocate(stream_of(stream), bytes, alignment); });
  }

  static std::int32_t deallocate(
    void* context, void* stream, void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    return guarded(
      [&] { of(context).deallocate(stream_of(stream), pointer, bytes, alignment); });
  }

  static std::int32_t allocate_sync(
    void* context, std::size_t bytes, std::size_t alignment, void** out) noexcept
  {
    return guarded([&] { *out = of(context).allocate_sync(bytes, alignment); });
  }

  static std::int32_t deallocate_sync(
    void* context, void* pointer, std::size_t bytes, std::size_t alignment) noexcept
  {
    return guarded([&] { of(context).deallocate_sync(pointer, bytes, alignment); });
  }

  static bool equal(void* context, void* other) noexcept
  {
    bool is_equal = false;
    return guarded([&] { is_equal = of(context) == of(other); }) == RMM_RS_OK && is_equal;
  }

  static void* retain(void* context) noexcept
  {
    static_cast<callbacks*>(context)->references_.fetch_add(1, std::memory_order_relaxed);
    return context;
  }

  static void release(void* context) noexcept
  {
    auto* const self = static_cast<callbacks*>(context);
    if (self->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) { delete self; }
  }

  Any resource_;
  std::atomic<std::size_t> references_{1};
};

}  // namespace detail

/// A C++ resource, RMM's among them, for the resources of this library to stand on. It is called on
/// any thread, on several at once (see basic_resource::thread_safe), and never under a lock. What
/// it throws becomes a status with the text, and an exception again where the stack is used from
/// C++. A resource of this library becomes itself, from CCCL 3.4 on.
template <class... Properties>
[[nodiscard]] basic_resource<Properties...> make_upstream(
  ::cuda::mr::any_resource<Properties...> resource)
{
  using own = basic_resource<Properties...>;
#if CCCL_VERSION >= 3004000
  if (auto* const ours = ::cuda::mr::resource_cast<own>(&resource)) { return *ours; }
  if (auto* const ours = ::cuda::mr::resource_cast<host_device_resource>(&resource)) {
    return *ours;
  }
#endif
  using table = detail::callbacks<::cuda::mr::any_resource<Properties...>>;
  return own{table::make(std::move(resource), (detail::bit<Properties> | ...))};
}

/// The same for a resource of any type, or a copy of what a resource_ref refers to, with the
/// properties that its type has.
template <class Resource>
  requires(::cuda::mr::resource<Resource>)
[[nodiscard]] auto make_upstream(Resource resource)
{
  using ::cuda::mr::any_resource;
  using ::cuda::mr::device_accessible;
  using ::cuda::mr::host_accessible;
  constexpr bool is_of_device = ::cuda::has_property<Resource, device_accessible>;
  constexpr bool is_of_host = ::cuda::has_property<Resource, host_accessible>;
  static_assert(is_of_device || is_of_host, "the resource states no property of its memory");
  if constexpr (is_of_device && is_of_host) {
    return make_upstream(any_resource<device_accessible, host_accessible>{std::move(resource)});
  } else if constexpr (is_of_device) {
    return make_upstream(any_resource<device_accessible>{std::move(resource)});
  } else {
    return make_upstream(any_resource<host_accessible>{std::move(resource)});
  }
}

/// The same for a resource without stream order: before a free the stream is synchronized.
template <class... Properties>
[[nodiscard]] basic_resource<Properties...> make_upstream(
  ::cuda::mr::any_synchronous_resource<Properties...> resource)
{
  using table = detail::callbacks<::cuda::mr::any_synchronous_resource<Properties...>>;
  auto const properties = (detail::bit<Properties> | ...);
  return basic_resource<Properties...>{table::make(std::move(resource), properties)};
}

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#endif  // RMM_RS_UPSTREAM_HPP
