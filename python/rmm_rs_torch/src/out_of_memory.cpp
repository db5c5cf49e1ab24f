#include "out_of_memory.hpp"

#include "captures.hpp"

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <sstream>

namespace rmm_rs_torch {

namespace {

using c10::CachingAllocator::format_size;

struct device_memory {
  std::size_t free{0};
  std::size_t total{0};
};

device_memory memory_of(c10::DeviceIndex device) noexcept
{
  device_memory found;
  try {
    c10::cuda::CUDAGuard const guard{device};
    // Of a captured stream, too, this is no work for the device.
    (void)cudaMemGetInfo(&found.free, &found.total);
  } catch (c10::Error const&) {
    return {};
  }
  return found;
}

/// A line for each thing that would help, from the calling thread's last failure.
std::string remedies()
{
  std::ostringstream text;
  auto const count = engine->rmm_rs_last_error_remedy_count();
  for (std::size_t i = 0; i < count; ++i) {
    rmm_rs_remedy remedy{};
    remedy.size = sizeof remedy;
    if (engine->rmm_rs_last_error_remedy(i, &remedy) != RMM_RS_OK) { break; }
    auto const* const enough = remedy.is_enough != 0 ? "" : ", which is not enough by itself";
    auto const bytes         = format_size(remedy.bytes);
    switch (remedy.action) {
      case RMM_RS_REMEDY_WAIT:
        text << "\n- Synchronize " << (remedy.name[0] != '\0' ? remedy.name : "the device")
             << ": makes " << bytes << " available" << enough << '.';
        break;
      case RMM_RS_REMEDY_TRIM:
        text << "\n- Call torch.cuda.empty_cache(): " << remedy.name << " returns " << bytes
             << enough << '.';
        break;
      case RMM_RS_REMEDY_RAISE_LIMIT:
        text << "\n- Raise the limit of " << remedy.name << " by " << bytes << enough << '.';
        break;
      default: break;
    }
  }
  return std::move(text).str();
}

std::string percentage(double fraction)
{
  std::ostringstream text;
  text << fraction * 100.0 << '%';
  return std::move(text).str();
}

/// Returns what a resource does not use to its upstream.
void trim_resource(resource const& memory)
{
  auto const status = engine->rmm_rs_resource_trim_blocking(memory.get(), 0, nullptr);
  // A stack in which nothing keeps memory refuses, and a pool that sleeps is not ready.
  if (status != RMM_RS_REFUSED && status != RMM_RS_NOT_READY) { check(status); }
}

/// Whether the pool that refused a request sleeps.
bool is_asleep(refused_request const& request)
{
  auto const memory = request.pool != nullptr ? request.pool->memory_if_made() : resource{};
  return memory && engine->rmm_rs_pool_is_asleep(memory.get());
}

/// Whether the device's current stream is captured: then no call may wait.
bool is_current_captured(c10::DeviceIndex device)
{
  return is_captured(c10::cuda::getCurrentCUDAStream(device).stream());
}

/// Runs what libraries have registered to free memory, such as that of tensors of other processes.
bool run_free_memory_callbacks()
{
  bool has_freed   = false;
  auto* const list = c10::FreeCudaMemoryCallbacksRegistry();
  for (auto const& name : list->Keys()) { has_freed |= list->Create(name)->Execute(); }
  return has_freed;
}

}  // namespace

void* shortages::serve(refused_request const& request, rmm_rs_status status)
{
  TORCH_CHECK(status == RMM_RS_OUT_OF_MEMORY, last_error_message(),
              is_asleep(request) ? ". A Sleeper has put the memory of this region or graph to "
                                   "sleep: call its wake()"
                                 : "");
  auto const* const client = request.client;
  bool const is_cached     = client == clients_.find(request.device);
  void* out                = nullptr;
  bool is_retry            = false;
  auto const try_pool      = [&](resource const& pool) {
    status = engine->rmm_rs_client_allocate(client, pool.get(), request.stream, request.bytes,
                                            &out);
    return status == RMM_RS_OK;
  };
  auto const try_again = [&] {
    return try_pool(request.pool != nullptr ? request.pool->memory(clients_) : resource{});
  };
  if (!is_captured(request.stream)) {
    if (run_free_memory_callbacks() && try_again()) { return out; }
    for (auto const& pool : pools_.for_shortages(request.device)) {
      if (!is_cached) { break; }
      auto const memory = pool == request.pool ? resource{} : pool->memory_if_made();
      if (!memory) { continue; }
      pool->note(request.stream);
      if (try_pool(memory)) { return out; }
    }
    is_retry = trim(request.device);
    if (try_again()) {
      if (is_retry) { counts_.count_retry(request.device); }
      return out;
    }
  }
  TORCH_CHECK(status == RMM_RS_OUT_OF_MEMORY, last_error_message());
  report(request, is_retry);
}

bool shortages::trim(c10::DeviceIndex device)
{
  auto const* const client = clients_.find(device);
  if (client == nullptr || is_current_captured(device)) { return false; }
  c10::cuda::CUDAGuard const guard{device};
  {
    captures_held_back const held;
    if (!held || !settle(client)) { return false; }
  }
  // First, since they may have kept blocks of the device's own memory.
  auto unused = pools_.unused(device);
  if (!unused.empty()) { counts_.note_peak(device); }
  for (auto& pool : unused) {
    // For each: a capture that begins waits for one of them.
    captures_held_back const held;
    if (!held) { return false; }
    trim_waiting(pool);
    pool.reset();
  }
  captures_held_back const held;
  if (!held) { return false; }
  trim_resource(clients_.memory_of(device));
  release_memory_left();
  return true;
}

void shortages::trim(c10::DeviceIndex device, c10::MempoolId_t id)
{
  // First, since the engine may wait when the pool goes.
  captures_held_back const held;
  auto const pool = pools_.find(device, id);
  if (pool == nullptr || !held || is_current_captured(device)) { return; }
  counts_.note_peak(device);
  trim_waiting(pool);
}

void shortages::trim_waiting(shared_pool const& pool)
{
  auto const memory = pool->memory_if_made();
  c10::cuda::CUDAGuard const guard{pool->device()};
  if (!settle(clients_.of(pool->device()))) { return; }
  bool const is_unused = pools_.end(pool);
  if (is_unused) {
    // Of a graph that was reset a replay may run still. None is launched again.
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    pool->release_kept();
    if (memory) { check(engine->rmm_rs_pool_release_graph_memory(memory.get())); }
  }
  if (memory) {
    trim_resource(memory);
    if (statistics_of(memory).live_bytes > 0) { return; }
  }
  if (is_unused) { counts_.retire(pool); }
}

void shortages::attach(observer function)
{
  std::lock_guard const lock{mutex_};
  observers_.push_back(std::move(function));
}

#if TORCH_VERSION_MINOR >= 12
void shortages::attach_rejection(rejection_observer function)
{
  std::lock_guard const lock{mutex_};
  rejection_observers_.push_back(std::move(function));
}
#endif

void shortages::report(refused_request const& request, bool is_retry)
{
  // First of all: later calls of the engine may replace it.
  auto const reason   = last_error_message();
  auto const remedy   = remedies();
  auto const device   = request.device;
  auto const memory   = memory_of(device);
  auto const totals   = counts_.totals_of(device);
  double fraction     = 1.0;
  check(engine->rmm_rs_client_memory_fraction(clients_.of(device), &fraction));
  auto const limit    = static_cast<std::size_t>(fraction * static_cast<double>(memory.total));
  bool const is_limit = fraction < 1.0 && totals.allocated + request.bytes > limit;

  // What the driver need not be asked for: it has no more than its total.
  bool is_rejection = false;
#if TORCH_VERSION_MINOR >= 12
  is_rejection = !is_limit && totals.reserved + request.bytes > memory.total &&
                 c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig::throw_on_cudamalloc_oom();
  if (is_rejection) {
    counts_.count_rejection(device);
    std::unique_lock lock{mutex_};
    auto const functions = rejection_observers_;
    lock.unlock();
    for (auto const& call : functions) {
      call(device, request.bytes, totals.reserved, memory.total);
    }
  }
#endif
  if (!is_rejection) {
    history_.out_of_memory(device, request.bytes, memory.free, request.stream,
                           history_.gather(caching::RecordContext::STATE));
    if (is_retry) { counts_.count_retry(device); }
    counts_.count_out_of_memory(device);
    c10::reportOutOfMemoryToProfiler(
      static_cast<std::int64_t>(request.bytes), totals.allocated, totals.reserved,
      c10::Device(c10::DeviceType::CUDA, device));
    std::unique_lock lock{mutex_};
    auto const functions = observers_;
    lock.unlock();
    auto const usable = is_limit ? limit : memory.total;
    for (auto const& call : functions) { call(device, request.bytes, usable, memory.free); }
  }

  std::ostringstream text;
  text << "CUDA out of memory. Tried to allocate " << format_size(request.bytes) << ". GPU "
       << static_cast<int>(device) << " has a total capacity of " << format_size(memory.total)
       << " of which " << format_size(memory.free) << " is free. ";
  if (is_limit) {
    text << percentage(fraction) << " (" << format_size(limit)
         << ") of it may be allocated by this process. ";
  }
  text << "Tensors have " << format_size(totals.allocated) << ", and rmm-rs has reserved "
       << format_size(totals.reserved) << ". " << reason << remedy;
  TORCH_CHECK_WITH(OutOfMemoryError, false, text.str());
}

}  // namespace rmm_rs_torch
