// Counts of what is allocated through the adaptor. No stack of counters: no test here needs one.
#include <rmm/mr/statistics_resource_adaptor.hpp>

#include <small_rmm/try.hpp>

RMM_NAMESPACE_BEGIN
namespace mr {
namespace detail {

using impl = statistics_resource_adaptor_impl;

impl::statistics_resource_adaptor_impl(cuda::mr::any_resource<cuda::mr::device_accessible> upstream)
  : upstream_mr_{std::move(upstream)}
{
}

void* impl::allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment)
{
  auto* const pointer = upstream_mr_.allocate(stream, bytes, alignment);
  write_lock_t const lock{mtx_};
  counter_stack_.top().first += static_cast<std::int64_t>(bytes);
  counter_stack_.top().second += 1;
  return pointer;
}

void impl::deallocate(cuda::stream_ref stream,
                      void* ptr,
                      std::size_t bytes,
                      std::size_t alignment) noexcept
{
  {
    write_lock_t const lock{mtx_};
    counter_stack_.top().first -= static_cast<std::int64_t>(bytes);
    counter_stack_.top().second -= 1;
  }
  upstream_mr_.deallocate(stream, ptr, bytes, alignment);
}

void* impl::allocate_sync(std::size_t bytes, std::size_t alignment)
{
  cuda::stream_ref const stream{cudaStream_t{}};
  auto* const pointer = allocate(stream, bytes, alignment);
  small_rmm::check(cudaStreamSynchronize(stream.get()));
  return pointer;
}

void impl::deallocate_sync(void* ptr, std::size_t bytes, std::size_t alignment) noexcept
{
  cuda::stream_ref const stream{cudaStream_t{}};
  deallocate(stream, ptr, bytes, alignment);
  cudaStreamSynchronize(stream.get());
}

impl::counter impl::get_bytes_counter() const noexcept
{
  read_lock_t const lock{mtx_};
  return counter_stack_.top().first;
}

impl::counter impl::get_allocations_counter() const noexcept
{
  read_lock_t const lock{mtx_};
  return counter_stack_.top().second;
}

}  // namespace detail

statistics_resource_adaptor::statistics_resource_adaptor(
  cuda::mr::any_resource<cuda::mr::device_accessible> upstream)
  : shared_base{cuda::std::in_place_type<detail::statistics_resource_adaptor_impl>, std::move(upstream)}
{
}

statistics_resource_adaptor::counter statistics_resource_adaptor::get_bytes_counter()
  const noexcept
{
  return get().get_bytes_counter();
}

statistics_resource_adaptor::counter statistics_resource_adaptor::get_allocations_counter()
  const noexcept
{
  return get().get_allocations_counter();
}

}  // namespace mr
RMM_NAMESPACE_END
