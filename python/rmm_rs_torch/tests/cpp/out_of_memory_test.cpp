// Requests that fail, and what helps them.
#include "harness.hpp"

#include <c10/cuda/CUDAAllocatorConfig.h>

using namespace harness;

namespace {

/// Freed by a callback, as memory of other processes is.
memory freed_on_demand;

class free_on_demand : public c10::FreeMemoryCallback {
 public:
  bool Execute() override
  {
    bool const has_freed = freed_on_demand.get() != nullptr;
    freed_on_demand.clear();
    return has_freed;
  }
};

}  // namespace

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK("free_on_demand", free_on_demand);
}  // namespace c10

TEST(out_of_memory_is_reported_and_the_next_request_works)
{
  static std::vector<std::pair<std::int64_t, std::size_t>> observed;
  ours().attachOutOfMemoryObserver(
    [](std::int64_t device, std::size_t bytes, std::size_t, std::size_t) {
      observed.emplace_back(device, bytes);
    });
  ours().emptyCache();
  ours().resetAccumulatedStats(0);
  ours().recordHistory(true, nullptr, 100, caching::RecordContext::NEVER, true, {});
  auto const text = text_of_error<c10::OutOfMemoryError>([] { ours().allocate(2048 * mib); });
  auto const begin = std::string{"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0"};
  check_equal(text.substr(0, begin.size()), begin, "text");
  CHECK(observed.size() == 1 && observed[0] == std::make_pair(std::int64_t{0}, 2048 * mib));
  CHECK(ours().getDeviceStats(0).num_ooms == 1);
  auto const entries = ours().snapshot().device_traces.at(0);
  ours().recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
  CHECK(entries.size() == 1 && entries[0].action_ == caching::TraceEntry::OOM);
  check_equal(entries[0].size_, 2048 * mib, "bytes of the entry");
  auto const block = ours().allocate(mib);
  use(block, mib, c10::cuda::getCurrentCUDAStream());
  text_of_error<c10::OutOfMemoryError>([] { ours().allocate(std::size_t{1} << 61); });
}

TEST(requests_are_tried_again_and_counted_as_by_native)
{
  for (auto* const allocator : {&native(), &ours()}) {
    allocator->resetAccumulatedStats(0);
    for (int i = 0; i < 2; ++i) {
      text_of_error<c10::OutOfMemoryError>([&] { allocator->allocate(std::size_t{1} << 50); });
    }
    check_equal(allocator->getDeviceStats(0).num_alloc_retries, 2, "retries");
    check_equal(allocator->getDeviceStats(0).num_ooms, 2, "failures");
    allocator->resetAccumulatedStats(0);
    check_equal(allocator->getDeviceStats(0).num_alloc_retries, 0, "retries after a reset");
  }
}

TEST(the_memory_fraction_is_of_tensors)
{
  std::size_t free  = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  CHECK(ours().getMemoryFraction(0) == 1.0);
  text_of_error<c10::Error>([] { ours().setMemoryFraction(1.5, 0); });
  text_of_error<c10::Error>([] { ours().setMemoryFraction(-0.1, 0); });
  ours().setMemoryFraction(64.0 * mib / static_cast<double>(total), 0);
  {
    auto const most = ours().allocate(60 * mib);
    auto const text = text_of_error<c10::OutOfMemoryError>([] { ours().allocate(8 * mib); });
    CHECK(text.find("of it may be allocated by this process") != std::string::npos);
  }
  ours().setMemoryFraction(1.0, 0);
  auto const more = ours().allocate(100 * mib);
}

TEST(requests_that_no_driver_can_serve_are_rejected_as_by_native)
{
#if TORCH_VERSION_MINOR >= 12
  std::size_t free  = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  static std::vector<std::vector<std::size_t>> rejected;
  // Native calls them on another thread.
  ours().attachOomRejectionObserver(
    [](std::int64_t, std::size_t bytes, std::size_t reserved, std::size_t of) {
      rejected.push_back({bytes, reserved, of});
    });
  auto const run = [total](cuda_allocator& allocator) {
    static std::ostringstream text;
    text.str("");
    allocator.attachOutOfMemoryObserver(
      [](std::int64_t, std::size_t bytes, std::size_t, std::size_t) { text << bytes << ' '; });
    // Native asks for a context whatever was said.
    auto const make_context = [] { return std::make_shared<c10::GatheredContext>(); };
    allocator.recordHistory(true, make_context, 100, caching::RecordContext::ALL, true, {});
    auto const fail = [&](std::size_t bytes) {
      text_of_error<c10::OutOfMemoryError>([&] { allocator.allocate(bytes); });
    };
    for (auto const* const setting :
         {"throw_on_cudamalloc_oom:True", "throw_on_cudamalloc_oom:False"}) {
      c10::CachingAllocator::setAllocatorSettings(setting);
      auto const most = allocator.allocate(128 * mib);
      fail(total);
      // The program's own limit is no rejection.
      allocator.setMemoryFraction(0.5, 0);
      fail(total / 2 + 2 * mib);
      fail(total);
      allocator.setMemoryFraction(1.0, 0);
    }
    auto const stats   = allocator.getDeviceStats(0);
    auto const entries = allocator.snapshot().device_traces.at(0);
    allocator.recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    text << stats.num_ooms << ' ' << stats.num_oom_rejections << ' ' << stats.num_alloc_retries;
    for (auto const& e : entries) {
      if (e.action_ == caching::TraceEntry::OOM) { text << " oom " << e.size_; }
    }
    return text.str();
  };
  auto const expected = run(native());
  check_equal(run(ours()), expected, "what is told and counted");
  CHECK(rejected == (std::vector<std::vector<std::size_t>>{{total, 128 * mib, total}}));
#endif
}

TEST(callbacks_that_free_memory_help)
{
  ours().emptyCache();
  freed_on_demand  = ours().allocate(200 * mib);
  auto const other = ours().allocate(200 * mib);
  CHECK(freed_on_demand.get() == nullptr);
  use(other, mib, c10::cuda::getCurrentCUDAStream());
}

TEST(pools_for_shortages_serve_what_the_others_cannot)
{
  ours().emptyCache();
  auto const id = c10::MempoolId_t{0, 99999};
  ours().createOrIncrefPool(0, id);
  ours().setUseOnOOM(0, id, true);
  ours().beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
  auto* const address = ours().allocate(128 * mib).get();
  ours().endAllocateToPool(0, id);
  ours().releasePool(0, id);
  auto const most  = ours().allocate(200 * mib);
  auto const other = ours().allocate(128 * mib);
  CHECK(other.get() == address);
  ours().setUseOnOOM(0, id, false);
  text_of_error<c10::OutOfMemoryError>([] { ours().allocate(128 * mib); });
  ours().releasePool(0, id);
}

TEST(uncached_memory_is_not_counted)
{
  for (auto* const allocator : {&native(), &ours()}) {
    auto const cached = allocator->allocate(kib);
    allocator->enable(false);
    {
      auto const block = allocator->allocate(32 * mib);
      auto* const raw  = allocator->raw_alloc(mib);
      auto const stats = allocator->getDeviceStats(0);
      check_equal(stats.requested_bytes[0].allocated, std::int64_t{kib}, "requested");
      check_equal(stats.allocation[0].current, 1, "blocks");
      allocator->raw_delete(raw);
    }
    allocator->enable(true);
    check_equal(allocator->getDeviceStats(0).allocation[0].freed, 0, "frees");
  }
}

TEST(uncached_memory_is_the_drivers)
{
  ours().enable(false);
  CHECK(!ours().isEnabled());
  std::size_t before = 0;
  std::size_t after  = 0;
  std::size_t total  = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&before, &total));
  {
    auto const block = ours().allocate(32 * mib);
    C10_CUDA_CHECK(cudaMemGetInfo(&after, &total));
    CHECK(before - after >= 32 * mib);
    ours().enable(true);
  }
  C10_CUDA_CHECK(cudaMemGetInfo(&after, &total));
  check_equal(after, before, "free bytes");
}

TEST(unknown_memory_is_an_error_in_raw_delete_alone)
{
  int local       = 0;
  auto const text = text_of_error<c10::Error>([&] { ours().raw_delete(&local); });
  CHECK(!text.empty());
  memory const foreign{&local, c10::Device(c10::DeviceType::CUDA, 0)};
  ours().recordStream(foreign, c10::cuda::getStreamFromPool());
  text_of_error<c10::Error>([&] { ours().getBaseAllocation(&local, nullptr); });
}

TEST(an_uncached_request_that_a_callback_helps_stays_uncached)
{
  auto const free_bytes = [] {
    std::size_t free  = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free;
  };
  ours().emptyCache();
  auto const most = free_bytes() / mib * mib;
  freed_on_demand = ours().allocate(200 * mib);
  auto const before = ours().getDeviceStats(0).requested_bytes[0];
  ours().enable(false);
  { auto const block = ours().allocate(most - 100 * mib); }
  ours().enable(true);
  CHECK(freed_on_demand.get() == nullptr);
  auto const after = ours().getDeviceStats(0).requested_bytes[0];
  check_equal(after.allocated, before.allocated, "requested");
  CHECK(free_bytes() >= most);
}
