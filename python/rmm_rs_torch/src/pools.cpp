#include "pools.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <atomic>

namespace rmm_rs_torch {

namespace {

bool is_pool(resource const& candidate)
{
  rmm_rs_pool_statistics statistics{};
  statistics.size = sizeof statistics;
  return engine->rmm_rs_pool_statistics_get(candidate.get(), &statistics) == RMM_RS_OK;
}

resource upstream_of(resource const& memory)
{
  rmm_rs_resource const* upstream = nullptr;
  check(engine->rmm_rs_resource_upstream(memory.get(), &upstream));
  return resource{upstream};
}

resource make_pool(resource const& upstream, std::uint32_t flags)
{
  rmm_rs_pool_options options{};
  options.size = sizeof options;
  // Streams of PyTorch are never destroyed.
  options.stream_policy       = RMM_RS_STREAM_POLICY_KEPT;
  options.flags               = flags;
  rmm_rs_resource const* pool = nullptr;
  check(engine->rmm_rs_pool_new(upstream.get(), &options, &pool));
  return resource{pool};
}

/// What the pool below a resource takes its memory from.
resource upstream_of_pool(resource const& memory)
{
  auto const pool = pool_below(memory);
  TORCH_CHECK(pool, "rmm-rs: private pools need a pool in the device's resource, and there is "
                    "none: install(pool=...) with a PoolMemoryResource");
  // A pool below an adaptor is found first, so this is the upstream of the pool itself.
  return upstream_of(pool);
}

/// An allocator of PyTorch's as the functions of a resource.
class foreign_memory {
 public:
  foreign_memory(c10::DeviceIndex device, std::shared_ptr<cuda_allocator> allocator)
    : device_{device}, allocator_{std::move(allocator)}
  {
  }

  static rmm_rs_callbacks callbacks(foreign_memory* owned)
  {
    rmm_rs_callbacks table{};
    table.size            = sizeof table;
    table.properties      = RMM_RS_DEVICE_ACCESSIBLE;
    table.context         = owned;
    table.allocate_sync   = &allocate;
    table.deallocate_sync = &deallocate;
    table.retain          = &retain;
    table.release         = &release;
    return table;
  }

 private:
  static foreign_memory& of(void* context) { return *static_cast<foreign_memory*>(context); }

  static void* retain(void* context)
  {
    of(context).references_.fetch_add(1, std::memory_order_relaxed);
    return context;
  }
  static void release(void* context)
  {
    if (of(context).references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete &of(context);
    }
  }

  static rmm_rs_status allocate(void* context, std::size_t bytes, std::size_t, void** out)
  {
    return guarded(context, RMM_RS_OUT_OF_MEMORY, [&](cuda_allocator& allocator) {
      *out = allocator.raw_alloc(bytes);
      TORCH_CHECK(*out != nullptr, "the allocator of a MemPool, ", allocator.name(),
                  ", returned null for ", bytes, " bytes");
    });
  }
  static rmm_rs_status deallocate(void* context, void* pointer, std::size_t, std::size_t)
  {
    return guarded(context, RMM_RS_ALLOCATION_FAILED,
                   [&](cuda_allocator& allocator) { allocator.raw_delete(pointer); });
  }

  template <class F>
  static rmm_rs_status guarded(void* context, rmm_rs_status failure, F call) noexcept
  {
    auto& self      = of(context);
    auto const fail = [failure](char const* reason) {
      engine->rmm_rs_set_last_error(reason);
      return failure;
    };
    try {
      c10::cuda::CUDAGuard const guard{self.device_};
      call(*self.allocator_);
      return RMM_RS_OK;
    } catch (c10::Error const& error) {
      return fail(error.what_without_backtrace());
    } catch (std::exception const& error) {
      return fail(error.what());
    } catch (...) {
      return fail("the allocator of a MemPool threw");
    }
  }

  c10::DeviceIndex device_;
  std::shared_ptr<cuda_allocator> allocator_;
  std::atomic<std::size_t> references_{1};
};

}  // namespace

resource pool_below(resource memory)
{
  while (memory && !is_pool(memory)) { memory = upstream_of(memory); }
  return memory;
}

rmm_rs_pool_statistics statistics_of(resource const& pool)
{
  rmm_rs_pool_statistics found{};
  found.size = sizeof found;
  if (pool) { check(engine->rmm_rs_pool_statistics_get(pool.get(), &found)); }
  return found;
}

resource make_private_pool(resource const& memory)
{
  return make_pool(upstream_of_pool(memory), RMM_RS_POOL_GRAPHS);
}

resource make_tag_pool(resource const& memory) { return make_pool(upstream_of_pool(memory), 0); }

resource make_foreign_pool(c10::DeviceIndex device, std::shared_ptr<cuda_allocator> foreign)
{
  auto const table = foreign_memory::callbacks(new foreign_memory{device, std::move(foreign)});
  rmm_rs_resource const* memory = nullptr;
  auto const status = engine->rmm_rs_resource_from_callbacks(&table, &memory);
  if (status != RMM_RS_OK) { table.release(table.context); }
  check(status);
  return make_pool(resource{memory}, RMM_RS_POOL_GRAPHS);
}

std::vector<segment> segments_of(resource const& pool)
{
  struct {
    std::vector<segment> ranges;
    std::size_t number{0};
  } walked;
  // The blocks of a segment come by address. Where virtual memory was returned there are none.
  auto const visit = [](rmm_rs_pool_block const* block, void* context) {
    auto& [ranges, number] = *static_cast<decltype(walked)*>(context);
    auto const begin = reinterpret_cast<std::uintptr_t>(block->segment_base) + block->offset;
    if (ranges.empty() || block->segment != number ||
        ranges.back().begin + ranges.back().bytes != begin) {
      ranges.push_back({begin, 0, block->stream});
    }
    ranges.back().bytes += block->bytes;
    number = block->segment;
  };
  if (pool) { check(engine->rmm_rs_pool_walk(pool.get(), visit, &walked)); }
  std::sort(walked.ranges.begin(), walked.ranges.end(),
            [](segment const& a, segment const& b) { return a.begin < b.begin; });
  return std::move(walked.ranges);
}

checkpoint::checkpoint(rmm_rs_client const* client, resource const& pool) : pool_{pool}
{
  check(engine->rmm_rs_client_checkpoint(client, pool.get(), &handle_));
}

checkpoint::~checkpoint() { engine->rmm_rs_checkpoint_release(handle_); }

c10::cuda::CUDACachingAllocator::CheckpointDelta checkpoint::restore(
  c10::DeviceIndex device, cudaStream_t stream, c10::DeleterFnPtr deleter) const
{
  struct addresses {
    std::vector<void*> freed;
    std::vector<void*> live;
  } found;
  auto const visit = [](void* pointer, std::size_t, std::uint8_t is_live, void* context) {
    auto& lists = *static_cast<addresses*>(context);
    (is_live != 0 ? lists.live : lists.freed).push_back(pointer);
  };
  check(engine->rmm_rs_checkpoint_restore(handle_, stream, visit, &found));
  c10::cuda::CUDACachingAllocator::CheckpointDelta delta;
  delta.ptrs_freed = std::move(found.freed);
  for (auto* const pointer : found.live) {
    delta.dataptrs_allocd.emplace_back(pointer, pointer, deleter,
                                       c10::Device(c10::DeviceType::CUDA, device));
  }
  return delta;
}

}  // namespace rmm_rs_torch
