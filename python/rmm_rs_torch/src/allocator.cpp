#include "allocator.hpp"

#include "captures.hpp"
#include "snapshot.hpp"

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstdlib>

namespace rmm_rs_torch {

namespace {

allocator* installed = nullptr;

/// The deleter of all tensors. PyTorch compares its address.
void free_of_tensor(void* pointer)
{
  try {
    installed->raw_delete(pointer);
  } catch (std::exception const& error) {
    // Destructors call this.
    TORCH_WARN("rmm-rs: a tensor's memory was not freed: ", error.what());
  }
}

c10::DeviceIndex current_device()
{
  c10::DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

/// Memory of the driver.
resource uncached(c10::DeviceIndex)
{
  rmm_rs_resource const* memory = nullptr;
  check(engine->rmm_rs_cuda_resource_new(&memory));
  return resource{memory};
}

/// Whether the environment switches caching off for good.
bool is_never_cached()
{
  static bool const is_set = std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr;
  return is_set;
}

c10::DeviceIndex device_of(rmm_rs_client_block const& block)
{
  return static_cast<c10::DeviceIndex>(block.device);
}

bool find_block(void const* pointer, rmm_rs_client_block& out)
{
  out      = {};
  out.size = sizeof out;
  return engine->rmm_rs_client_find(pointer, &out) == RMM_RS_OK;
}

}  // namespace

allocator& install(resource_of_device make)
{
  static auto* const the_one = new allocator{std::move(make)};
  installed                  = the_one;
  return *the_one;
}

allocator& installed_allocator()
{
  TORCH_CHECK(installed != nullptr, "rmm-rs: call rmm_rs.torch.install() first");
  return *installed;
}

allocator::allocator(resource_of_device make) : clients_{std::move(make)}, uncached_{&uncached} {}

c10::DataPtr allocator::allocate(std::size_t bytes)
{
  constexpr std::size_t exbibyte = std::size_t{1} << 60;
  TORCH_CHECK_WITH(OutOfMemoryError, bytes < exbibyte,
                   "CUDA out of memory. Tried to allocate more than 1EB memory.");
  auto const device = current_device();
  auto* const out   = allocate_on(device, c10::cuda::getCurrentCUDAStream(device).stream(), bytes);
  return {out, out, &free_of_tensor, c10::Device(c10::DeviceType::CUDA, device)};
}

c10::DeleterFnPtr allocator::raw_deleter() const { return &free_of_tensor; }

void allocator::copy_data(void* to, void const* from, std::size_t bytes) const
{
  C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
}

void* allocator::raw_alloc(std::size_t bytes)
{
  auto const device = current_device();
  return allocate_on(device, c10::cuda::getCurrentCUDAStream(device).stream(), bytes);
}

void* allocator::raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream)
{
  return allocate_on(current_device(), stream, bytes);
}

void* allocator::allocate_on(c10::DeviceIndex device, cudaStream_t stream, std::size_t bytes)
{
  if (bytes == 0) { return nullptr; }
  bool const is_cached     = is_enabled_.load(std::memory_order_relaxed) && !is_never_cached();
  auto const* const client = is_cached ? clients_.of(device) : uncached_.of(device);
  auto const pool          = is_cached ? routes_.find(device, stream) : nullptr;
  resource memory;
  if (pool != nullptr) {
    memory = pool->memory(clients_);
    pool->note(stream);
  }
  auto const serve = [&] {
    void* out         = nullptr;
    auto const status = engine->rmm_rs_client_allocate(client, memory.get(), stream, bytes, &out);
    if (status == RMM_RS_OK) { return out; }
    return shortages_.serve({device, stream, bytes, pool, client}, status);
  };
  void* out = nullptr;
  if (is_cached && history_.wants_blocks()) {
    auto const id = pool != nullptr ? pool->id() : c10::MempoolId_t{0, 0};
    segments_.observe(device, id, pool_below(memory ? memory : clients_.memory_of(device)));
    growing_request const request{stream, history_.gather(caching::RecordContext::STATE)};
    out = serve();
    history_.complete_frees();
    if (out != nullptr) { history_.allocated({out, bytes, device, stream, id}, request.context); }
  } else {
    out = serve();
  }
  // At the end of the process the engine succeeds without memory.
  if (out == nullptr) { return nullptr; }
  if (is_cached && c10::memoryProfilingEnabled()) {
    report_to_profiler(out, static_cast<std::int64_t>((bytes + 511) / 512 * 512), device);
  }
  if (auto const* const trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr)) {
    (*trace)->trace_gpu_memory_allocation(c10::DeviceType::CUDA,
                                          reinterpret_cast<std::uintptr_t>(out));
  }
  return out;
}

void allocator::raw_delete(void* pointer)
{
  if (pointer == nullptr) { return; }
  bool const is_profiled = c10::memoryProfilingEnabled();
  bool const is_wanted   = history_.wants_frees() || is_profiled;
  bool const may_capture = any_capture_announced();
  rmm_rs_client_block block{};
  bool const is_found = (is_wanted || may_capture) && find_block(pointer, block);
  // What was allocated with caching switched off is in no history, and no profile.
  bool const is_known = is_wanted && is_found && block.client == clients_.find(device_of(block));
  auto const graph    = may_capture && is_found ? graph_that_keeps(block) : nullptr;
  bool const waits    = block.is_recorded != 0 && graph == nullptr;
  if (is_known) {
    history_.complete_frees();
    // Before another thread can allocate the block.
    history_.freed(traced(block), history_.gather(caching::RecordContext::ALL), waits);
  }
  if (auto const* const trace = c10::impl::GPUTrace::get_trace(); C10_UNLIKELY(trace != nullptr)) {
    (*trace)->trace_gpu_memory_deallocation(c10::DeviceType::CUDA,
                                            reinterpret_cast<std::uintptr_t>(pointer));
  }
  exported_.forget(pointer);
  if (graph != nullptr) {
    rmm_rs_graph_block const* kept = nullptr;
    check(engine->rmm_rs_client_free_for_graph(pointer, &kept));
    graph->keep(kept);
  } else {
    check(engine->rmm_rs_client_free(pointer));
  }
  if (is_known && waits) { history_.free_begun(pointer); }
  if (is_known && is_profiled) {
    report_to_profiler(pointer, -static_cast<std::int64_t>(block.bytes), device_of(block));
  }
}

shared_pool allocator::graph_that_keeps(rmm_rs_client_block const& block) const
{
  auto* const stream = static_cast<cudaStream_t>(block.stream);
  // No graph has the legacy stream.
  if (stream == nullptr || stream == cudaStreamLegacy || !is_captured(stream)) { return nullptr; }
  // A pool for graphs keeps its own.
  auto const own = pools_.find(device_of(block), block.pool);
  if (own != nullptr && !own->is_tag()) { return nullptr; }
  return routes_.find_graph(device_of(block), stream);
}

void allocator::recordStream(c10::DataPtr const& memory, c10::cuda::CUDAStream stream)
{
  // Memory of other processes and of `from_blob` has another deleter.
  if (memory.get() == nullptr || memory.get_deleter() != &free_of_tensor) { return; }
  check(engine->rmm_rs_client_record_stream(memory.get_context(), stream.stream()));
}

bool allocator::initialized() { return is_initialized_.load(); }

void allocator::init(int) { is_initialized_.store(true); }

void allocator::emptyCache(c10::MempoolId_t id)
{
  routes_.drop_left_over();
  bool const is_recorded = history_.wants_blocks();
  growing_request const request{
    nullptr, is_recorded ? history_.gather(caching::RecordContext::ALL) : nullptr};
  for (auto const device : clients_.devices()) {
    if (id == c10::MempoolId_t{0, 0}) {
      shortages_.trim(device);
    } else {
      shortages_.trim(device, id);
    }
  }
}

double allocator::getMemoryFraction(c10::DeviceIndex device)
{
  double fraction = 1.0;
  check(engine->rmm_rs_client_memory_fraction(clients_.of(device), &fraction));
  return fraction;
}

void allocator::setMemoryFraction(double fraction, c10::DeviceIndex device)
{
  check(engine->rmm_rs_client_set_memory_fraction(clients_.of(device), fraction));
}

void allocator::enable(bool value) { is_enabled_.store(value); }

bool allocator::isEnabled() const { return is_enabled_.load(); }

void allocator::cacheInfo(c10::DeviceIndex device, std::size_t* largest)
{
  if (*largest == 0) {
    c10::cuda::CUDAGuard const guard{device};
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(largest, &total));
  }
  auto const found = statistics_of(pool_below(clients_.memory_of(device)));
  *largest         = std::max(*largest, static_cast<std::size_t>(found.largest_free_bytes));
}

void* allocator::getBaseAllocation(void* pointer, std::size_t* bytes)
{
  rmm_rs_client_block block{};
  TORCH_CHECK(find_block(pointer, block), "rmm-rs: ", pointer, " is no memory of a tensor");
  auto const memory  = clients_.memory_of(block);
  auto const address = reinterpret_cast<std::uintptr_t>(pointer);
  for (auto const& range : segments_of(pool_below(memory))) {
    if (range.begin <= address && address < range.begin + range.bytes) {
      if (bytes != nullptr) { *bytes = range.bytes; }
      return reinterpret_cast<void*>(range.begin);
    }
  }
  if (bytes != nullptr) { *bytes = block.bytes; }
  return pointer;
}

std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize>
allocator::getExpandableSegmentSizes(c10::DeviceIndex)
{
  return {};
}

std::string allocator::name() { return "rmm-rs"; }

caching::DeviceStats allocator::getDeviceStats(c10::DeviceIndex device)
{
  return statistics_.of(device);
}

void allocator::resetAccumulatedStats(c10::DeviceIndex device)
{
  statistics_.reset_accumulated(device);
}

void allocator::resetPeakStats(c10::DeviceIndex device) { statistics_.reset_peaks(device); }

c10::cuda::CUDACachingAllocator::SnapshotInfo allocator::snapshot(c10::MempoolId_t id,
                                                                  bool include_traces)
{
  return take_snapshot(clients_, pools_, history_, id, include_traces);
}

void allocator::report_to_profiler(void* pointer, std::int64_t bytes, c10::DeviceIndex device)
{
  auto const totals = statistics_.totals_of(device);
  c10::reportMemoryUsageToProfiler(pointer, bytes, totals.allocated, totals.reserved,
                                   c10::Device(c10::DeviceType::CUDA, device));
}

traced_block allocator::traced(rmm_rs_client_block const& block) const
{
  auto const device = device_of(block);
  return {block.pointer, block.requested, device, block.stream, pools_.id_of(device, block.pool)};
}

}  // namespace rmm_rs_torch
