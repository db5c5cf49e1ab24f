// What the header promises about its types. The compiler is the test.

#include <rmm_rs.hpp>

#if RMM_RS_HAS_RMM
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/resource_ref.hpp>
#endif

#include <stdexcept>
#include <type_traits>

using cuda::mr::device_accessible;
using cuda::mr::host_accessible;
using rmm_rs::device_resource;
using rmm_rs::host_device_resource;
using rmm_rs::host_resource;

// One pointer, so that it lies inside any_resource.
static_assert(sizeof(device_resource) == sizeof(void*));
static_assert(sizeof(host_device_resource) == sizeof(void*));
static_assert(sizeof(rmm_rs::stream) == sizeof(void*));

// Concepts.
static_assert(cuda::mr::synchronous_resource<device_resource>);
static_assert(cuda::mr::resource<device_resource>);
static_assert(cuda::mr::resource<device_resource const>);
static_assert(cuda::mr::resource_with<device_resource, device_accessible>);
static_assert(!cuda::mr::resource_with<device_resource, host_accessible>);
static_assert(cuda::mr::resource_with<host_device_resource, device_accessible, host_accessible>);
static_assert(cuda::mr::resource_with<host_resource, host_accessible>);
static_assert(!cuda::mr::resource_with<host_resource, device_accessible>);
static_assert(cuda::mr::synchronous_resource_with<device_resource, device_accessible>);
static_assert(cuda::has_property<device_resource, cuda::mr::dynamic_accessibility_property>);

// Type-erased, by value and by reference.
template <class... Properties>
using any = cuda::mr::any_resource<Properties...>;
template <class... Properties>
using ref = cuda::mr::resource_ref<Properties...>;

static_assert(std::is_constructible_v<any<device_accessible>, device_resource>);
static_assert(std::is_constructible_v<any<device_accessible>, device_resource const&>);
static_assert(std::is_constructible_v<any<device_accessible>, host_device_resource>);
using any_of_both = any<device_accessible, host_accessible>;
static_assert(std::is_constructible_v<any_of_both, host_device_resource>);
static_assert(!std::is_constructible_v<any<host_accessible>, device_resource>);
static_assert(!std::is_constructible_v<any_of_both, device_resource>);
static_assert(std::is_convertible_v<device_resource&, ref<device_accessible>>);
static_assert(std::is_constructible_v<ref<device_accessible>, host_device_resource&>);
static_assert(!std::is_constructible_v<ref<host_accessible>, device_resource&>);
static_assert(
  std::is_constructible_v<cuda::mr::any_synchronous_resource<device_accessible>, device_resource>);
static_assert(
  std::is_convertible_v<device_resource&, cuda::mr::synchronous_resource_ref<device_accessible>>);

#if RMM_RS_HAS_RMM
static_assert(std::is_convertible_v<device_resource&, rmm::device_async_resource_ref>);
static_assert(std::is_convertible_v<host_device_resource&, rmm::host_device_async_resource_ref>);
static_assert(!std::is_constructible_v<rmm::host_async_resource_ref, device_resource&>);
static_assert(std::is_constructible_v<rmm::mr::statistics_resource_adaptor, device_resource&>);
#endif

// More properties convert to fewer, and not back.
static_assert(std::is_convertible_v<host_device_resource, device_resource>);
static_assert(std::is_convertible_v<host_device_resource, host_resource>);
static_assert(!std::is_constructible_v<host_device_resource, device_resource>);
static_assert(!std::is_constructible_v<host_resource, device_resource>);
static_assert(std::equality_comparable_with<device_resource, host_device_resource>);

// A null object comes of a move only, and nothing that must not throw can.
static_assert(!std::is_default_constructible_v<device_resource>);
static_assert(!std::is_convertible_v<rmm_rs_resource const*, device_resource>);
static_assert(std::is_nothrow_copy_constructible_v<device_resource>);
static_assert(std::is_nothrow_move_constructible_v<device_resource>);
static_assert(std::is_nothrow_move_assignable_v<device_resource>);
static_assert(std::is_nothrow_swappable_v<device_resource>);
static_assert(std::is_nothrow_destructible_v<device_resource>);
static_assert(noexcept(
  std::declval<device_resource&>().deallocate(cuda::stream_ref{cudaStream_t{}}, nullptr, 0)));
static_assert(noexcept(std::declval<device_resource&>().deallocate_sync(nullptr, 0)));
static_assert(noexcept(std::declval<device_resource&>() == std::declval<device_resource&>()));

// A stream has one owner.
static_assert(!std::is_copy_constructible_v<rmm_rs::stream>);
static_assert(std::is_nothrow_move_constructible_v<rmm_rs::stream>);
static_assert(std::is_nothrow_move_assignable_v<rmm_rs::stream>);
static_assert(std::is_convertible_v<rmm_rs::stream const&, cuda::stream_ref>);

// Exceptions are what a handler for the standard ones expects, and copied without failure.
static_assert(std::is_base_of_v<std::bad_alloc, rmm_rs::bad_alloc>);
static_assert(std::is_base_of_v<rmm_rs::bad_alloc, rmm_rs::out_of_memory>);
static_assert(std::is_base_of_v<std::invalid_argument, rmm_rs::invalid_argument>);
static_assert(std::is_base_of_v<std::runtime_error, rmm_rs::cuda_error>);
static_assert(std::is_base_of_v<std::logic_error, rmm_rs::logic_error>);
#if RMM_RS_HAS_RMM
static_assert(std::is_same_v<rmm_rs::out_of_memory, rmm::out_of_memory>);
#else
static_assert(std::is_nothrow_copy_constructible_v<rmm_rs::out_of_memory>);
#endif

// A function that makes a resource makes one of its class.
static_assert(std::is_same_v<decltype(device_resource::cuda_resource()), device_resource>);
static_assert(
  std::is_same_v<decltype(host_device_resource::pinned_resource()), host_device_resource>);
template <class Resource>
using upstream_of = decltype(rmm_rs::make_upstream(std::declval<Resource>()));
static_assert(std::is_same_v<upstream_of<any<device_accessible>>, device_resource>);
static_assert(std::is_same_v<upstream_of<ref<device_accessible>>, device_resource>);
static_assert(std::is_same_v<upstream_of<host_device_resource>, host_device_resource>);
static_assert(std::is_same_v<upstream_of<cuda::mr::any_synchronous_resource<host_accessible>>,
                             host_resource>);
#if RMM_RS_HAS_RMM
static_assert(std::is_same_v<upstream_of<rmm::mr::statistics_resource_adaptor>, device_resource>);
#endif

// Every member compiles, used or not.
template class rmm_rs::basic_resource<device_accessible>;
template class rmm_rs::basic_resource<device_accessible, host_accessible>;
template class rmm_rs::basic_resource<host_accessible>;
