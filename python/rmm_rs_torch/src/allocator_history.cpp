// The functions of the allocator for the history of allocations, and observers.
#include "allocator.hpp"

#include <c10/cuda/CUDAFunctions.h>

namespace rmm_rs_torch {

bool allocator::isHistoryEnabled() { return history_.is_enabled(); }

void allocator::recordHistory(bool enabled,
                              caching::CreateContextFn recorder,
                              std::size_t capacity,
                              caching::RecordContext when,
                              bool clear,
                              std::vector<std::string> const& skipped_actions)
{
  history_.record(enabled, recorder, capacity, when, clear, skipped_actions);
  if (enabled) { observe_segments(); }
}

void allocator::observe_segments()
{
  for (auto const device : clients_.devices()) {
    segments_.observe(device, {0, 0}, pool_below(clients_.memory_of(device)));
  }
  for (auto const& pool : pools_.all()) {
    segments_.observe(pool->device(), pool->id(), pool->memory_if_made());
  }
}

void allocator::recordAnnotation(std::vector<std::pair<std::string, std::string>> const& metadata)
{
  c10::DeviceIndex device = 0;
  // An annotation is no reason to fail.
  if (c10::cuda::GetDevice(&device) == cudaSuccess) { history_.annotate(device, metadata); }
}

void allocator::pushCompileContext(std::string& name) { history::push_compile_context(name); }

void allocator::popCompileContext() { history::pop_compile_context(); }

void allocator::setUserMetadata(std::string const& metadata)
{
  history::set_user_metadata(metadata);
}

std::string allocator::getUserMetadata() { return history::user_metadata(); }

void allocator::attachOutOfMemoryObserver(
  c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer)
{
  shortages_.attach(std::move(observer));
}

void allocator::attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker)
{
  history_.attach(std::move(tracker));
  observe_segments();
}

#if TORCH_VERSION_MINOR >= 12
context_pointer allocator::getContextForPointer(void const* pointer)
{
  return history_.context_of(pointer);
}

void allocator::attachOomRejectionObserver(
  c10::cuda::CUDACachingAllocator::OomRejectionObserver observer)
{
  shortages_.attach_rejection(std::move(observer));
}
#endif

#if TORCH_VERSION_MINOR >= 14
bool allocator::supportsUserMetadata() { return true; }

void allocator::annotateMemory(void const* pointer, std::string const& metadata)
{
  rmm_rs_client_block block{};
  block.size = sizeof block;
  TORCH_CHECK(engine->rmm_rs_client_find(pointer, &block) == RMM_RS_OK, "rmm-rs: ", pointer,
              " is no memory of a tensor");
  history_.annotate(traced(block), metadata);
}
#endif

}  // namespace rmm_rs_torch
