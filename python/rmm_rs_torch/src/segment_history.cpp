#include "segment_history.hpp"

#include <memory>
#include <utility>

namespace rmm_rs_torch {

namespace {

using entry = caching::TraceEntry;

thread_local growing_request const* request_of_thread = nullptr;

/// Whether this thread begins to observe a pool, which tells of what it holds.
thread_local bool is_beginning = false;

/// What the callback of a pool knows.
struct observed_pool {
  history& records;
  c10::DeviceIndex device;
  c10::MempoolId_t id;
  /// Whether the pool maps virtual memory, which can sleep, as PyTorch's expandable segments do.
  bool is_virtual;
};

bool tell(void* context, std::uint32_t event, void* base, std::uint64_t bytes)
{
  // A history begins empty, as PyTorch's own: NCCL asks for a snapshot of what there is.
  if (is_beginning) { return true; }
  auto const& pool     = *static_cast<observed_pool const*>(context);
  bool const is_there  = event == RMM_RS_SEGMENT_ADDED;
  auto const mapped    = is_there ? entry::SEGMENT_MAP : entry::SEGMENT_UNMAP;
  auto const allocated = is_there ? entry::SEGMENT_ALLOC : entry::SEGMENT_FREE;
  auto const* request  = request_of_thread;
  try {
    pool.records.segment(pool.is_virtual ? mapped : allocated,
                         {base, static_cast<std::size_t>(bytes), pool.device,
                          request != nullptr ? request->stream : nullptr, pool.id},
                         request != nullptr ? request->context : nullptr);
  } catch (std::exception const& error) {
    // The pool goes on all the same.
    TORCH_WARN("rmm-rs: a segment was not recorded: ", error.what());
  }
  return true;
}

}  // namespace

growing_request::growing_request(cudaStream_t of, context_pointer at) noexcept
  : stream{of}, context{std::move(at)}, before_{std::exchange(request_of_thread, this)}
{
}

growing_request::~growing_request() { request_of_thread = before_; }

void segment_history::observe(c10::DeviceIndex device, c10::MempoolId_t id, resource const& pool)
{
  if (!pool) { return; }
  std::uint64_t identity = 0;
  check(engine->rmm_rs_resource_limit_id(pool.get(), &identity));
  {
    std::lock_guard const lock{mutex_};
    if (!pools_.insert(key{device, id, identity}).second) { return; }
  }
  auto context = std::make_unique<observed_pool>(
    observed_pool{records_, device, id, engine->rmm_rs_pool_can_sleep(pool.get())});
  auto const release = [](void* given) { delete static_cast<observed_pool*>(given); };
  is_beginning      = true;
  auto const status = engine->rmm_rs_pool_on_segment(pool.get(), &tell, context.release(), release,
                                                     nullptr);
  is_beginning      = false;
  check(status);
}

}  // namespace rmm_rs_torch
