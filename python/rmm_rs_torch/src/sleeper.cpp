#include "sleeper.hpp"

#include "captures.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <atomic>
#include <thread>

namespace rmm_rs_torch {

namespace {

constexpr c10::MempoolId_t own_pool{0, 0};

/// An id that PyTorch gives to no pool: one number of its ids is always 0.
c10::MempoolId_t new_id()
{
  static std::atomic<std::uint64_t> last{0};
  auto const number = ++last;
  return {number, number};
}

/// Returns what a pool does not use, after a wait for pending frees.
void trim_pool(resource const& memory)
{
  auto const status = engine->rmm_rs_resource_trim_blocking(memory.get(), 0, nullptr);
  // A pool that sleeps is not ready.
  if (status != RMM_RS_REFUSED && status != RMM_RS_NOT_READY) { check(status); }
}

/// Throws if the memory is not virtual.
void check_can_sleep(resource const& memory)
{
  TORCH_CHECK(engine->rmm_rs_pool_can_sleep(memory.get()),
              "rmm-rs: this memory cannot sleep: only virtual memory goes back to the device while "
              "its addresses stay. Call rmm_rs.torch.install(\"pool\"), or set RMM_RS_TORCH=pool, "
              "for a pool over virtual memory");
}

/// Throws if there are captures.
void check_without_capture(bool is_without)
{
  TORCH_CHECK(is_without,
              "rmm-rs: memory cannot fall asleep while a stream is captured, whose graph would use "
              "it");
}

}  // namespace

c10::MempoolId_t sleeper::make_tag(c10::DeviceIndex device)
{
  c10::cuda::CUDAGuard const guard{device};
  auto const id   = new_id();
  auto const pool = pools_.create_tag(device, id);
  try {
    check_can_sleep(pool->memory(clients_));
  } catch (...) {
    pools_.release(device, id);
    pools_.remove_unused(pool);
    throw;
  }
  return id;
}

c10::MempoolId_t sleeper::begin_region(c10::DeviceIndex device, c10::MempoolId_t id)
{
  clients_.of(device);
  shared_pool pool;
  if (id != own_pool) {
    pool = pools_.find(device, id);
    TORCH_CHECK(pool != nullptr, "rmm-rs: the memory of this tag was released");
  }
  // A route has an id of its own: a pool serves any number of regions.
  auto const region = new_id();
  auto const filter = [thread = std::this_thread::get_id()](cudaStream_t) {
    return std::this_thread::get_id() == thread;
  };
  routes_.begin(device, region, filter, std::move(pool));
  return region;
}

void sleeper::end_region(c10::DeviceIndex device, c10::MempoolId_t region)
{
  routes_.end(device, region);
}

std::vector<shared_pool> sleeper::of_graphs() const
{
  std::vector<shared_pool> found;
  for (auto const& pool : pools_.all()) {
    if (pool->is_of_graphs() && pool->memory_if_made()) { found.push_back(pool); }
  }
  return found;
}

void sleeper::check_may_sleep(c10::DeviceIndex device, c10::MempoolId_t id)
{
  check_without_capture(!any_capture_announced());
  routes_.drop_left_over();
  auto const pool = pools_.find(device, id);
  TORCH_CHECK(pool == nullptr || !routes_.any_to(*pool),
              "rmm-rs: memory cannot fall asleep while a region or a capture allocates from it: "
              "leave it first");
  auto const memory = memory_of(device, id);
  TORCH_CHECK(memory || id != own_pool, "rmm-rs: there is no pool in the device's resource");
  if (!memory) { return; }
  {
    std::lock_guard const lock{mutex_};
    TORCH_CHECK(exported_.count({device, id}) == 0,
                "rmm-rs: memory cannot fall asleep once a handle for other processes was taken of "
                "it: they would keep the old pages");
  }
  TORCH_CHECK(pool == nullptr || !pool->is_foreign(),
              "rmm-rs: the memory of a MemPool over another allocator cannot sleep");
  check_can_sleep(memory);
}

std::uint64_t sleeper::sleep(c10::DeviceIndex device,
                             c10::MempoolId_t id,
                             bool to_host,
                             resource const& host_memory)
{
  captures_held_back const held;
  check_without_capture(static_cast<bool>(held));
  check_may_sleep(device, id);
  auto const memory = memory_of(device, id);
  if (!memory) { return 0; }
  c10::cuda::CUDAGuard const guard{device};
  check(engine->rmm_rs_client_settle(clients_.of(device), true));
  // What is free need not come back. Graphs may use what they have freed.
  auto const pool = pools_.find(device, id);
  if (pool == nullptr || pool->is_tag()) { trim_pool(memory); }
  rmm_rs_sleep_options options{};
  options.size           = sizeof options;
  options.contents       = to_host ? RMM_RS_SLEEP_TO_HOST : RMM_RS_SLEEP_DISCARD;
  options.wait_for_work  = 1;
  options.host_memory    = host_memory.get();
  std::uint64_t released = 0;
  check(engine->rmm_rs_pool_sleep(memory.get(), &options, &released));
  return released;
}

std::uint64_t sleeper::wake(c10::DeviceIndex device, c10::MempoolId_t id)
{
  auto const memory = memory_of(device, id);
  if (!memory) { return 0; }
  c10::cuda::CUDAGuard const guard{device};
  std::uint64_t mapped = 0;
  auto status          = engine->rmm_rs_pool_wake(memory.get(), &mapped);
  if (status == RMM_RS_OUT_OF_MEMORY) {
    shortages_.trim(device);
    status = engine->rmm_rs_pool_wake(memory.get(), &mapped);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, status != RMM_RS_OUT_OF_MEMORY,
                   "CUDA out of memory. GPU ", static_cast<int>(device),
                   " has too little for memory that is asleep, which sleeps on: free some and wake "
                   "it again. ",
                   last_error_message());
  check(status);
  return mapped;
}

bool sleeper::is_asleep(c10::DeviceIndex device, c10::MempoolId_t id)
{
  auto const memory = memory_of(device, id);
  return memory && engine->rmm_rs_pool_is_asleep(memory.get());
}

sleeper::usage sleeper::usage_of(c10::DeviceIndex device, c10::MempoolId_t id)
{
  auto const found = statistics_of(memory_of(device, id));
  return {found.live_bytes, found.reserved_bytes - found.asleep_bytes, found.asleep_bytes};
}

void sleeper::trim(c10::DeviceIndex device, c10::MempoolId_t id)
{
  shortages_.trim(device, id);
}

bool sleeper::read(void const* block, void const* from, std::size_t bytes, void* out)
{
  rmm_rs_client_block known{};
  known.size = sizeof known;
  check(engine->rmm_rs_client_find(block, &known));
  auto const memory = pool_below(clients_.memory_of(known));
  auto const status = engine->rmm_rs_pool_read_asleep(memory.get(), from, bytes, out);
  // It is awake, or was not kept.
  if (status == RMM_RS_NOT_READY || status == RMM_RS_INVALID_ARGUMENT) { return false; }
  check(status);
  return true;
}

void sleeper::note_exported(c10::DeviceIndex device, c10::MempoolId_t id)
{
  std::lock_guard const lock{mutex_};
  exported_.insert({device, id});
}

resource sleeper::memory_of(c10::DeviceIndex device, c10::MempoolId_t id)
{
  if (id == own_pool) { return pool_below(clients_.memory_of(device)); }
  auto const pool = pools_.find(device, id);
  return pool == nullptr ? resource{} : pool->memory_if_made();
}

}  // namespace rmm_rs_torch
