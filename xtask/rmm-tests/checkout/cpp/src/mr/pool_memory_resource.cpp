// A pool that takes a new range from its upstream whenever no free block is large enough, and
// keeps all of them to its end. RMM's headers bring the free lists and their order on streams.
#include <rmm/mr/pool_memory_resource.hpp>

#include <algorithm>
#include <limits>

RMM_NAMESPACE_BEGIN
namespace mr {
namespace detail {

using impl = pool_memory_resource_impl;

namespace {
constexpr std::size_t smallest_range = std::size_t{4} << 20;
}

impl::pool_memory_resource_impl(cuda::mr::any_resource<cuda::mr::device_accessible> upstream,
                                std::size_t initial_pool_size,
                                std::optional<std::size_t> maximum_pool_size)
  : upstream_mr_{std::move(upstream)}, maximum_pool_size_{maximum_pool_size}
{
  RMM_EXPECTS(rmm::is_aligned(initial_pool_size, rmm::CUDA_ALLOCATION_ALIGNMENT),
              "the initial size is no multiple of 256 bytes");
  if (initial_pool_size != 0) {
    cuda::stream_ref const stream{cudaStream_t{cudaStreamLegacy}};
    insert_block(block_from_upstream(initial_pool_size, stream), stream);
  }
}

impl::~pool_memory_resource_impl()
{
  // Not every upstream waits for work that still uses the memory.
  cudaDeviceSynchronize();
  for (auto const& range : upstream_blocks_) {
    upstream_mr_.deallocate_sync(range.pointer(), range.size());
  }
}

std::size_t impl::pool_size() const noexcept { return current_pool_size_; }

device_async_resource_ref impl::get_upstream_resource() const noexcept
{
  return device_async_resource_ref{
    const_cast<cuda::mr::any_resource<cuda::mr::device_accessible>&>(upstream_mr_)};
}

std::size_t impl::get_maximum_allocation_size() const
{
  return maximum_pool_size_.value_or(std::numeric_limits<std::size_t>::max());
}

impl::block_type impl::block_from_upstream(std::size_t size, cuda::stream_ref)
{
  // Allocated on the stream, the remainder would have to be ordered before its use on others.
  auto* const pointer = upstream_mr_.allocate_sync(size);
  block_type const range{static_cast<char*>(pointer), size, true};
  upstream_blocks_.insert(range);
  current_pool_size_ += size;
  return range;
}

impl::block_type impl::expand_pool(std::size_t size, free_list&, cuda::stream_ref stream)
{
  auto const room = get_maximum_allocation_size() - current_pool_size_;
  if (size > room) { throw rmm::out_of_memory{"the pool has reached its maximum size"}; }
  return block_from_upstream(std::min(std::max(size, smallest_range), room), stream);
}

impl::split_block impl::allocate_from_block(block_type const& block, std::size_t size)
{
  block_type const taken{block.pointer(), size, block.is_head()};
  if (block.size() == size) { return {taken, block_type{}}; }
  return {taken, block_type{block.pointer() + size, block.size() - size, false}};
}

impl::block_type impl::free_block(void* ptr, std::size_t size) noexcept
{
  auto* const start = static_cast<char*>(ptr);
  return block_type{start, size, upstream_blocks_.find(start) != upstream_blocks_.end()};
}

}  // namespace detail

pool_memory_resource::pool_memory_resource(
  cuda::mr::any_resource<cuda::mr::device_accessible> upstream,
  std::size_t initial_pool_size,
  std::optional<std::size_t> maximum_pool_size)
  : shared_base{cuda::std::in_place_type<detail::pool_memory_resource_impl>,
                std::move(upstream),
                initial_pool_size,
                maximum_pool_size}
{
}

device_async_resource_ref pool_memory_resource::get_upstream_resource() const noexcept
{
  return get().get_upstream_resource();
}

std::size_t pool_memory_resource::pool_size() const noexcept { return get().pool_size(); }

}  // namespace mr
RMM_NAMESPACE_END
