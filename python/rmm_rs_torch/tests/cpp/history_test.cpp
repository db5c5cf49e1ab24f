// The history of allocations, and snapshots.
#include "harness.hpp"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>

using namespace harness;

namespace {

using entry = caching::TraceEntry;

struct counted_context : c10::GatheredContext {};

int contexts_made = 0;

std::shared_ptr<c10::GatheredContext> make_context()
{
  ++contexts_made;
  return std::make_shared<counted_context>();
}

/// The entries that do not depend on how an allocator takes memory from the driver.
std::string text_of(std::vector<entry> const& entries)
{
  static constexpr std::array<char const*, 10> names{"alloc",         "free_requested",
                                                     "free_completed", "segment_alloc",
                                                     "segment_free",  "segment_map",
                                                     "segment_unmap", "snapshot",
                                                     "oom",           "annotate"};
  std::map<std::size_t, std::size_t> blocks;
  std::ostringstream text;
  for (auto const& e : entries) {
    if (e.action_ >= entry::SEGMENT_ALLOC && e.action_ <= entry::SEGMENT_UNMAP) { continue; }
    // Addresses by their order.
    auto const block = blocks.try_emplace(e.addr_, blocks.size()).first->second;
    text << names.at(e.action_) << " device " << static_cast<int>(e.device_) << " block "
         << (e.action_ == entry::OOM ? 0 : block) << " size " << e.size_ << " pool "
         << e.mempool_.first << ',' << e.mempool_.second << " context " << (e.context_ != nullptr)
         << " in '" << e.compile_context_ << "' with '" << e.user_metadata_ << "'\n";
  }
  return text.str();
}

/// What one allocator records of a program.
std::string history_of(cuda_allocator& allocator, caching::RecordContext when,
                       std::vector<std::string> const& skipped)
{
  auto const side = c10::cuda::getStreamFromPool();
  allocator.recordHistory(true, &make_context, 1000, when, true, skipped);
  CHECK(allocator.isHistoryEnabled());
  auto const id = c10::MempoolId_t{0, 77777};
  {
    allocator.setUserMetadata("step 1");
    CHECK(allocator.getUserMetadata() == "step 1");
    auto const kept = allocator.allocate(1000);
    std::string name{"compiled"};
    allocator.pushCompileContext(name);
    auto recorded = allocator.allocate(3 * mib);
    allocator.popCompileContext();
    allocator.setUserMetadata("");
    {
      busy_stream const busy{side};
      allocator.recordStream(recorded, side);
      recorded.clear();
    }
    allocator.emptyCache();
    allocator.beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    auto in_pool = allocator.allocate(2000);
    in_pool.clear();
    allocator.endAllocateToPool(0, id);
#if TORCH_VERSION_MINOR >= 14
    CHECK(allocator.supportsUserMetadata());
    allocator.annotateMemory(kept.get(), "weights");
#endif
#if TORCH_VERSION_MINOR >= 12
    CHECK((allocator.getContextForPointer(kept.get()) != nullptr) ==
          (when != caching::RecordContext::NEVER));
    CHECK(allocator.getContextForPointer(&contexts_made) == nullptr);
#endif
  }
  allocator.releasePool(0, id);
  auto const found = allocator.snapshot();
  allocator.recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
  CHECK(!allocator.isHistoryEnabled());
  CHECK(!found.device_traces.empty());
  auto const& entries = found.device_traces[0];
  for (std::size_t i = 1; i < entries.size(); ++i) {
    CHECK(entries[i - 1].time_.t_ <= entries[i].time_.t_);
  }
  auto const now = std::chrono::system_clock::now().time_since_epoch();
  auto const age = std::chrono::duration_cast<std::chrono::microseconds>(now).count() -
                   (entries.empty() ? 0 : entries.back().time_.t_);
  CHECK(entries.empty() || std::abs(age) < 60'000'000);
  return text_of(entries);
}

/// Bytes of the blocks of a snapshot's segments that are in one state.
std::size_t bytes_of(c10::cuda::CUDACachingAllocator::SnapshotInfo const& snapshot,
                     bool is_allocated, bool is_active)
{
  std::size_t sum = 0;
  for (auto const& segment : snapshot.segments) {
    std::size_t whole = 0;
    for (auto const& block : segment.blocks) {
      whole += block.size;
      if (block.allocated == is_allocated && block.active == is_active) { sum += block.size; }
    }
    // Graph trees add up blocks to find addresses.
    check_equal(whole, segment.total_size, "bytes of blocks");
  }
  return sum;
}

}  // namespace

TEST(histories_equal_native)
{
  using when = caching::RecordContext;
  for (auto const recorded : {when::NEVER, when::STATE, when::ALLOC, when::ALL}) {
    check_equal(history_of(ours(), recorded, {}), history_of(native(), recorded, {}),
                "history with contexts " + std::to_string(static_cast<int>(recorded)));
  }
  check_equal(history_of(ours(), when::ALL, {"alloc", "snapshot"}),
              history_of(native(), when::ALL, {"alloc", "snapshot"}), "history in part");
}

TEST(segments_in_a_snapshot_have_the_context_of_their_request)
{
  auto const id = c10::MempoolId_t{0, 66666};
  for (auto* const allocator : {&native(), &ours()}) {
    auto const before = allocator->allocate(30 * mib);
    allocator->recordHistory(true, &make_context, 100, caching::RecordContext::STATE, true, {});
    auto const block = allocator->allocate(40 * mib);
    allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    auto in_pool = allocator->allocate(50 * mib);
    allocator->endAllocateToPool(0, id);
    auto const with_context = [&](memory const& of) {
      auto const address  = reinterpret_cast<std::size_t>(of.get());
      auto const segments = allocator->snapshot().segments;
      auto const is_its   = [address](caching::SegmentInfo const& s) {
        return s.address <= address && address < s.address + s.total_size;
      };
      auto const found = std::find_if(segments.begin(), segments.end(), is_its);
      return found != segments.end() && found->context_when_allocated != nullptr;
    };
    CHECK(!with_context(before) && with_context(block) && with_context(in_pool));
    allocator->recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    CHECK(with_context(block));
    in_pool.clear();
    allocator->releasePool(0, id);
  }
}

TEST(histories_begin_empty_whatever_there_is)
{
  for (auto* const allocator : {&native(), &ours()}) {
    auto const block = allocator->allocate(kib);
    allocator->recordHistory(true, nullptr, 100, caching::RecordContext::NEVER, true, {});
    auto const entries = allocator->snapshot().device_traces[0];
    allocator->recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    check_equal(entries.size(), 0U, "entries of " + allocator->name());
  }
}

TEST(frees_wait_for_streams_that_were_recorded_before_the_history_began)
{
  for (auto* const allocator : {&native(), &ours()}) {
    auto const side = c10::cuda::getStreamFromPool();
    auto block      = allocator->allocate(kib);
    allocator->recordStream(block, side);
    allocator->recordHistory(true, nullptr, 100, caching::RecordContext::NEVER, true, {});
    auto const last = [&] { return allocator->snapshot().device_traces[0]; };
    {
      busy_stream const busy{side};
      block.clear();
      auto const entries = last();
      check_equal(entries.size(), 1U, allocator->name() + " while the stream is busy");
      CHECK(entries[0].action_ == entry::FREE_REQUESTED);
    }
    (void)allocator->allocate(2 * kib);
    auto const entries = last();
    allocator->recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    auto const completed = [](entry const& e) { return e.action_ == entry::FREE_COMPLETED; };
    check_equal(std::count_if(entries.begin(), entries.end(), completed), 2, "completed frees");
  }
}

TEST(a_slow_stream_holds_up_no_entry_of_another)
{
  auto const slow = c10::cuda::getStreamFromPool();
  auto const fast = c10::cuda::getStreamFromPool();
  ours().recordHistory(true, nullptr, 1000, caching::RecordContext::NEVER, true, {});
  auto const completed = [] {
    auto const entries = ours().snapshot().device_traces[0];
    return std::count_if(entries.begin(), entries.end(),
                         [](entry const& e) { return e.action_ == entry::FREE_COMPLETED; });
  };
  {
    busy_stream const busy{slow};
    for (auto const& [stream, count] : {std::pair{slow, 20}, std::pair{fast, 10}}) {
      std::vector<memory> blocks;
      for (int i = 0; i < count; ++i) {
        blocks.push_back(ours().allocate(kib));
        ours().recordStream(blocks.back(), stream);
      }
    }
    C10_CUDA_CHECK(cudaStreamSynchronize(fast.stream()));
    // Each looks at some of those that wait.
    std::vector<memory> later;
    for (int i = 0; i < 10; ++i) { later.push_back(ours().allocate(2 * kib)); }
    check_equal(completed(), 10, "completed frees");
  }
  check_equal(completed(), 20, "completed frees before the engine is called");
  ours().emptyCache();
  check_equal(completed(), 40, "completed frees at the end");
}

namespace {

/// What a profiler is told.
class reported_memory : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override
  {
    reported.push_back(bytes);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }

  std::vector<std::int64_t> reported;
};

}  // namespace

TEST(uncached_memory_is_in_no_history_and_no_profile_as_by_native)
{
  for (auto* const allocator : {&native(), &ours()}) {
    auto const profiler = std::make_shared<reported_memory>();
    c10::DebugInfoGuard const guard{c10::DebugInfoKind::PROFILER_STATE, profiler};
    allocator->recordHistory(true, &make_context, 100, caching::RecordContext::ALL, true, {});
    auto cached = allocator->allocate(1000);
    allocator->enable(false);
    auto uncached   = allocator->allocate(3000);
    auto* const raw = allocator->raw_alloc(5000);
    cached.clear();
    allocator->raw_delete(raw);
    allocator->enable(true);
    uncached.clear();
    auto const entries = allocator->snapshot().device_traces[0];
    allocator->recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    for (auto const& e : entries) {
      CHECK(e.size_ == 1000 ||
            (e.action_ >= entry::SEGMENT_ALLOC && e.action_ <= entry::SEGMENT_UNMAP));
    }
    CHECK(profiler->reported == (std::vector<std::int64_t>{1024, -1024}));
  }
}

TEST(each_device_has_an_entry_for_a_snapshot)
{
  for (auto* const allocator : {&native(), &ours()}) {
    allocator->recordHistory(true, nullptr, 100, caching::RecordContext::NEVER, true, {});
    (void)allocator->snapshot();
    auto const traces = allocator->snapshot().device_traces;
    allocator->recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    check_equal(traces.size(), 2U, "devices");
    for (auto const& entries : traces) {
      check_equal(entries.size(), 1U, "entries");
      CHECK(entries[0].action_ == entry::SNAPSHOT);
    }
  }
}

TEST(histories_keep_the_newest_entries)
{
  for (auto* const allocator : {&native(), &ours()}) {
    allocator->recordHistory(true, nullptr, 3, caching::RecordContext::NEVER, true, {});
    std::vector<memory> blocks;
    for (std::size_t i = 1; i <= 5; ++i) { blocks.push_back(allocator->allocate(i)); }
    auto const found = allocator->snapshot().device_traces.at(0);
    allocator->recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    check_equal(found.size(), 3U, "entries");
    check_equal(found[0].size_, 3U, "the oldest");
    check_equal(found[2].size_, 5U, "the newest");
  }
}

TEST(segments_that_a_call_of_the_program_returns_have_its_context)
{
  for (auto* const allocator : {&native(), &ours()}) {
    allocator->allocate(64 * mib).clear();
    synchronize();
    allocator->recordHistory(true, &make_context, 100, caching::RecordContext::ALL, true, {});
    allocator->emptyCache();
    auto const entries = allocator->snapshot().device_traces.at(0);
    allocator->recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    auto const returned = [](entry const& e) { return e.action_ == entry::SEGMENT_FREE; };
    auto const known    = [](entry const& e) { return e.context_ != nullptr; };
    CHECK(std::any_of(entries.begin(), entries.end(), returned));
    CHECK(std::all_of(entries.begin(), entries.end(),
                      [&](entry const& e) { return !returned(e) || known(e); }));
  }
}

TEST(trackers_see_entries_without_a_history)
{
  int seen = 0;
  ours().attachAllocatorTraceTracker(
    [&seen](entry const& e) { seen += e.action_ == entry::ALLOC ? 1 : 0; });
  auto const block = ours().allocate(kib);
  CHECK(seen == 1);
}

namespace {

/// Whether an entry of this kind has the address.
bool names(entry const& e, entry::Action action, void const* pointer)
{
  auto const address = reinterpret_cast<std::size_t>(pointer);
  return e.action_ == action && e.addr_ <= address && address < e.addr_ + e.size_;
}

std::size_t place_of(std::vector<entry> const& entries, entry::Action action, void const* pointer)
{
  auto const named = [&](entry const& e) { return names(e, action, pointer); };
  return static_cast<std::size_t>(
    std::find_if(entries.begin(), entries.end(), named) - entries.begin());
}

}  // namespace

TEST(segments_are_told_of_before_they_are_used_and_before_they_go)
{
  auto const id = c10::MempoolId_t{0, 99999};
  for (auto* const allocator : {&native(), &ours()}) {
    allocator->recordHistory(true, &make_context, 1000, caching::RecordContext::ALL, true, {});
    auto block          = allocator->allocate(40 * mib);
    auto* const address = block.get();
    block.clear();
    synchronize();
    allocator->emptyCache();
    allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    auto private_block          = allocator->allocate(30 * mib);
    auto* const private_address = private_block.get();
    allocator->endAllocateToPool(0, id);
    private_block.clear();
    allocator->releasePool(0, id);
    synchronize();
    allocator->emptyCache();
    auto const found = allocator->snapshot().device_traces.at(0);
    allocator->recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
    // The private pool may get the addresses that the other has given up.
    auto const of_pool = [id](entry const& e) { return e.mempool_ == id; };
    CHECK(std::count_if(found.begin(), found.end(), of_pool) >= 4);
    for (auto const* const pointer : {address, private_address}) {
      auto const segment = place_of(found, entry::SEGMENT_ALLOC, pointer);
      auto const used    = place_of(found, entry::ALLOC, pointer);
      auto const freed   = place_of(found, entry::FREE_COMPLETED, pointer);
      auto const gone    = place_of(found, entry::SEGMENT_FREE, pointer);
      CHECK(segment < used && used < freed && freed < gone && gone < found.size());
      CHECK(found[segment].mempool_ == found[used].mempool_);
      CHECK(found[segment].stream_ == found[used].stream_);
      CHECK(found[segment].context_ != nullptr);
    }
  }
}

TEST(trackers_hear_of_segments_of_pools_that_were_there_before)
{
  ours().allocate(kib).clear();
  std::vector<entry::Action> heard;
  ours().attachAllocatorTraceTracker([&heard](entry const& e) { heard.push_back(e.action_); });
  ours().attachAllocatorTraceTracker([](entry const&) {});
  synchronize();
  ours().emptyCache();
  CHECK(std::count(heard.begin(), heard.end(), entry::SEGMENT_FREE) >= 1);
  heard.clear();
  auto const block = ours().allocate(80 * mib);
  CHECK(heard == (std::vector<entry::Action>{entry::SEGMENT_ALLOC, entry::ALLOC}));
}

TEST(snapshots_of_virtual_memory_leave_out_what_was_returned)
{
  ours("pool(virtual)");
  std::vector<memory> blocks;
  for (int i = 0; i < 12; ++i) { blocks.push_back(ours().allocate(4 * mib)); }
  for (std::size_t const gone : {0, 1, 5, 6, 11}) { blocks[gone].clear(); }
  synchronize();
  ours().emptyCache();
  auto const segments = ours().snapshot().segments;
  std::size_t total   = 0;
  std::size_t end     = 0;
  for (auto const& segment : segments) {
    CHECK(segment.address >= end);
    end = segment.address + segment.total_size;
    total += segment.total_size;
  }
  auto const reserved = ours().getDeviceStats(0).reserved_bytes[0].current;
  check_equal(total, static_cast<std::size_t>(reserved), "bytes of segments");
  CHECK(segments.size() >= 2 && total >= 28 * mib);
  std::size_t bytes = 0;
  auto* const base  = static_cast<char*>(ours().getBaseAllocation(blocks[2].get(), &bytes));
  CHECK(base <= blocks[2].get() && base + bytes <= blocks[10].get());
}

TEST(snapshots_have_the_bytes_of_the_statistics)
{
  for (auto* const allocator : {&native(), &ours()}) {
    auto const side = c10::cuda::getStreamFromPool();
    auto const id   = c10::MempoolId_t{0, 88888};
    std::vector<memory> blocks;
    for (std::size_t i = 1; i <= 40; ++i) { blocks.push_back(allocator->allocate(i * 10 * kib)); }
    for (std::size_t i = 0; i < blocks.size(); i += 3) { blocks[i].clear(); }
    allocator->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    auto const in_pool = allocator->allocate(5 * kib);
    allocator->endAllocateToPool(0, id);
    {
      busy_stream const busy{side};
      allocator->recordStream(blocks[1], side);
      blocks[1].clear();
      auto const snapshot = allocator->snapshot();
      auto const stats    = allocator->getDeviceStats(0);
      auto const all      = [&](auto const& stat) {
        return static_cast<std::size_t>(stat[0].current);
      };
      check_equal(bytes_of(snapshot, true, true), all(stats.allocated_bytes), "allocated");
      check_equal(bytes_of(snapshot, false, true),
                  all(stats.active_bytes) - all(stats.allocated_bytes), "pending");
      std::size_t total = 0;
      for (auto const& segment : snapshot.segments) { total += segment.total_size; }
      check_equal(total, all(stats.reserved_bytes), "reserved");
    }
    auto const of_pool = allocator->snapshot(id, false);
    CHECK(of_pool.segments.size() == 1 && of_pool.device_traces.empty());
    CHECK(of_pool.segments[0].owner_private_pool_id == id);
    CHECK(of_pool.segments[0].active_size == 5 * kib);
    std::size_t bytes = 0;
    auto* const base  = allocator->getBaseAllocation(in_pool.get(), &bytes);
    check_equal(reinterpret_cast<std::size_t>(base), of_pool.segments[0].address, "base");
    check_equal(bytes, of_pool.segments[0].total_size, "bytes of the segment");
    allocator->releasePool(0, id);
  }
}
