// Private pools and routes, in the orders of calls of PyTorch 2.11 and of 2.14.
#include "captures.hpp"
#include "harness.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <thread>
#include <utility>

using namespace harness;

namespace {

constexpr c10::DeviceIndex device = 0;

/// A new id for a pool that a graph makes.
c10::MempoolId_t new_id()
{
  // Both allocators get each id, and no two tests the same.
  static c10::CaptureId_t last = 1000;
  return {0, ++last};
}

bool any_stream(cudaStream_t) { return true; }

/// The calls around a capture, as a version of PyTorch makes them.
class capture {
 public:
  capture(c10::MempoolId_t id, c10::cuda::CUDAStream stream, int minor)
    : id_{id}, stream_{stream}, minor_{minor}
  {
    ours().beginAllocateToPool(device, id_, &captured_streams);
    begin_capture(stream_, cudaStreamCaptureModeGlobal, minor_ >= 13);
  }
  /// Ends it. A failed one at 2.11 leaves its route.
  void end(bool has_failed = false)
  {
    end_capture_unused(stream_, minor_ >= 13);
    if (!has_failed || minor_ >= 14) { ours().endAllocateToPool(device, id_); }
  }

 private:
  c10::MempoolId_t id_;
  c10::cuda::CUDAStream stream_;
  int minor_;
};

/// What one allocator answers to random calls.
std::vector<int> answers(cuda_allocator& allocator, unsigned seed)
{
  std::mt19937 random{seed};
  auto const below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random);
  };
  auto const first = 100000 + 10 * seed;
  std::map<std::size_t, int> uses;
  std::vector<std::size_t> routed;
  std::map<std::size_t, std::vector<memory>> live;
  std::vector<int> found;
  for (int step = 0; step < 300; ++step) {
    auto const pool             = below(3);
    auto const id               = c10::MempoolId_t{0, first + pool};
    auto const is_routed        = std::find(routed.begin(), routed.end(), pool) != routed.end();
    auto const serving          = routed.empty() ? 3 : routed.back();
    switch (below(6)) {
      case 0:
        allocator.createOrIncrefPool(device, id);
        ++uses[pool];
        break;
      case 1:
        if (!is_routed && routed.size() < 2) {
          allocator.beginAllocateToPool(device, id, any_stream);
          routed.push_back(pool);
          ++uses[pool];
        }
        break;
      case 2:
        if (!routed.empty()) {
          allocator.endAllocateToPool(device, {0, first + routed.back()});
          routed.pop_back();
        }
        break;
      case 3:
        // Native makes no pool anew of which tensors are left.
        if (uses[pool] > 1) {
          allocator.releasePool(device, id);
          --uses[pool];
        }
        break;
      case 4: live[serving].push_back(allocator.allocate(1 + below(64 * kib))); break;
      default:
        if (auto& list = live[serving]; !list.empty()) {
          std::swap(list[below(list.size())], list.back());
          list.pop_back();
        }
    }
    if (uses[pool] > 0) {
      found.push_back(allocator.getPoolUseCount(device, id));
      std::unordered_set<void*> expected;
      for (auto const& block : live[pool]) { expected.insert(block.get()); }
      found.push_back(allocator.checkPoolLiveAllocations(device, id, expected) ? 1 : 0);
      if (!expected.empty()) { expected.erase(expected.begin()); }
      found.push_back(allocator.checkPoolLiveAllocations(device, id, expected) ? 1 : 0);
    }
  }
  while (!routed.empty()) {
    allocator.endAllocateToPool(device, {0, first + routed.back()});
    routed.pop_back();
  }
  live.clear();
  for (auto const& [pool, count] : uses) {
    for (int i = 0; i < count; ++i) { allocator.releasePool(device, {0, first + pool}); }
  }
  allocator.emptyCache();
  return found;
}

std::size_t free_bytes()
{
  std::size_t free  = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

std::int64_t reserved(cuda_allocator& allocator)
{
  return allocator.getDeviceStats(device).reserved_bytes[0].current;
}

}  // namespace

TEST(private_pools_answer_random_calls_as_native)
{
  for (unsigned seed = 1; seed <= 20; ++seed) {
    auto const expected = answers(native(), seed);
    auto const found    = answers(ours(), seed);
    auto const [a, b] =
      std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
    auto const place    = std::to_string(a - expected.begin()) + " of " + std::to_string(seed);
    check_equal(found.size(), expected.size(), "answers");
    if (a != expected.end()) { check_equal(*b, *a, "answer " + place); }
  }
}

TEST(a_private_pool_keeps_its_memory_to_itself)
{
  auto const id = new_id();
  // The default pool has what this test needs of it.
  for (int i = 0; i < 2; ++i) {
    std::vector<memory> blocks;
    for (int j = 0; j < 8; ++j) { blocks.push_back(ours().allocate(mib)); }
  }
  auto const before = reserved(ours());
  auto const free   = free_bytes();
  ours().createOrIncrefPool(device, id);
  ours().beginAllocateToPool(device, id, any_stream);
  void* address = nullptr;
  {
    auto const block = ours().allocate(mib);
    address          = block.get();
    use(block, mib, c10::cuda::getCurrentCUDAStream());
  }
  {
    auto const again = ours().allocate(mib);
    CHECK(again.get() == address);
    CHECK(ours().getPoolUseCount(device, id) == 2);
  }
  ours().endAllocateToPool(device, id);
  std::vector<memory> outside;
  for (int i = 0; i < 8; ++i) {
    outside.push_back(ours().allocate(mib));
    CHECK(outside.back().get() != address);
  }
  outside.clear();
  ours().releasePool(device, id);
  // In use: its memory stays.
  ours().emptyCache(id);
  CHECK(reserved(ours()) > before);
  ours().releasePool(device, id);
  ours().emptyCache(id);
  check_equal(reserved(ours()), before, "reserved bytes after the last use");
  check_equal(free_bytes(), free, "free bytes of the device");
}

TEST(a_released_pool_stays_while_its_tensors_do)
{
  auto const id = new_id();
  ours().beginAllocateToPool(device, id, any_stream);
  auto block = ours().allocate(mib);
  ours().endAllocateToPool(device, id);
  ours().releasePool(device, id);
  ours().emptyCache();
  use(block, mib, c10::cuda::getCurrentCUDAStream());
  CHECK(ours().checkPoolLiveAllocations(device, id, {block.get()}));
  block.clear();
  auto const before = reserved(ours());
  ours().emptyCache();
  CHECK(reserved(ours()) < before);
  text_of_error<c10::Error>([&] { ours().getPoolUseCount(device, id); });
}

TEST(routes_serve_the_threads_and_streams_of_their_filters)
{
  auto const id   = new_id();
  auto const main = std::this_thread::get_id();
  ours().beginAllocateToPool(device, id,
                             [main](cudaStream_t) { return std::this_thread::get_id() == main; });
  auto const inner = new_id();
  auto const side  = c10::cuda::getStreamFromPool();
  on(side, [&] {
    ours().beginAllocateToPool(device, inner,
                               [side](cudaStream_t stream) { return stream == side.stream(); });
  });
  auto const routed     = ours().allocate(kib);
  auto const by_side    = on(side, [] { return ours().allocate(kib); });
  memory other;
  std::thread{[&] { other = ours().allocate(kib); }}.join();
  ours().endAllocateToPool(device, id);
  auto const after = ours().allocate(kib);
  ours().endAllocateToPool(device, inner);
  CHECK(ours().checkPoolLiveAllocations(device, id, {routed.get()}));
  CHECK(ours().checkPoolLiveAllocations(device, inner, {by_side.get()}));
  auto const text = text_of_error<c10::Error>([&] { ours().endAllocateToPool(device, id); });
  CHECK(text.find("endAllocateToPool") != std::string::npos);
  // A second begin is an error, and no use: native counts one then.
  ours().beginAllocateToPool(device, id, any_stream);
  text_of_error<c10::Error>([&] { ours().beginAllocateToPool(device, id, any_stream); });
  CHECK(ours().getPoolUseCount(device, id) == 2);
  ours().endAllocateToPool(device, id);
  ours().releasePool(device, id);
  ours().releasePool(device, id);
  ours().releasePool(device, inner);
}

TEST(a_failed_capture_at_2_11_leaves_no_route_behind)
{
  auto const id     = new_id();
  auto const stream = c10::cuda::getStreamFromPool();
  on(stream, [&] {
    capture first{id, stream, 11};
    first.end(true);
    // A second graph takes the same pool: the first one's filter is gone with it.
    capture second{id, stream, 11};
    second.end();
    ours().releasePool(device, id);
    ours().releasePool(device, id);
    capture third{id, stream, 11};
    third.end(true);
    ours().releasePool(device, id);
  });
  auto const block = on(stream, [] { return ours().allocate(kib); });
  ours().emptyCache();
  text_of_error<c10::Error>([&] { ours().getPoolUseCount(device, id); });
}

TEST(the_filter_of_an_ended_capture_is_not_called)
{
  static bool is_gone    = false;
  static bool was_called = false;
  auto const id     = new_id();
  auto const stream = c10::cuda::getStreamFromPool();
  auto const filter = [](cudaStream_t captured) {
    was_called = was_called || is_gone;
    return captured_streams(captured);
  };
  on(stream, [&] {
    ours().beginAllocateToPool(device, id, filter);
    begin_capture(stream, cudaStreamCaptureModeGlobal, false);
    auto const block = ours().allocate(kib);
    CHECK(ours().checkPoolLiveAllocations(device, id, {block.get()}));
    end_capture_unused(stream, false);
    // PyTorch 2.11 ends no route if the capture has failed, and the graph is destroyed.
    is_gone = true;
    (void)ours().allocate(kib);
    // A second user of the pool has it, so that the count does not fall to 0.
    ours().createOrIncrefPool(device, id);
    ours().releasePool(device, id);
    ours().beginAllocateToPool(device, id, &captured_streams);
    (void)ours().allocate(kib);
    ours().endAllocateToPool(device, id);
  });
  CHECK(!was_called);
  ours().releasePool(device, id);
  ours().releasePool(device, id);
}

TEST(captures_take_memory_from_their_pool)
{
  for (int const minor : {11, 14}) {
    auto const id     = new_id();
    auto const kept   = new_id();
    auto const stream = c10::cuda::getStreamFromPool();
    on(stream, [&] {
      // One that is not in use: it is freed after the capture.
      auto const unused = new_id();
      ours().beginAllocateToPool(device, unused, any_stream);
      (void)ours().allocate(mib);
      ours().endAllocateToPool(device, unused);
      ours().releasePool(device, unused);
      capture graph{id, stream, minor};
      auto block = ours().allocate(mib);
      use(block, mib, stream);
      auto* const address = block.get();
      block.clear();
      // What the stream has freed serves it again.
      auto const again = ours().allocate(mib);
      CHECK(again.get() == address);
      // use_mem_pool in a capture: the graph keeps that pool.
      ours().createOrIncrefPool(device, kept);
      ours().emptyCache();
      ours().emptyCache(unused);
      graph.end();
      CHECK(ours().checkPoolLiveAllocations(device, id, {again.get()}));
    });
    ours().releasePool(device, id);
    ours().releasePool(device, kept);
    ours().emptyCache();
    text_of_error<c10::Error>([&] { ours().getPoolUseCount(device, id); });
  }
}

TEST(a_foreign_allocator_backs_its_pool)
{
  auto const id      = new_id();
  auto const foreign = std::shared_ptr<cuda_allocator>{&native(), [](cuda_allocator*) {}};
  auto const before  = native().getDeviceStats(device).allocation[0].current;
  ours().createOrIncrefPool(device, id, foreign);
  ours().beginAllocateToPool(device, id, any_stream);
  {
    auto const block = ours().allocate(mib);
    use(block, mib, c10::cuda::getCurrentCUDAStream());
    CHECK(native().getDeviceStats(device).allocation[0].current > before);
  }
  ours().endAllocateToPool(device, id);
  ours().releasePool(device, id);
  ours().emptyCache();
  CHECK(native().getDeviceStats(device).allocation[0].current > before);
  ours().releasePool(device, id);
  ours().emptyCache(id);
  check_equal(native().getDeviceStats(device).allocation[0].current, before, "foreign blocks");
}

TEST(the_end_of_a_mem_pool_never_throws)
{
  ours().setUseOnOOM(device, new_id(), false);
  ours().emptyCache(new_id());
}


TEST(a_pool_that_another_replaces_counts_until_its_tensors_are_gone)
{
  auto const id    = new_id();
  auto const stats = [] { return ours().getDeviceStats(device); };
  auto const bytes = [] { return static_cast<std::size_t>(reserved(ours())); };
  ours().beginAllocateToPool(device, id, any_stream);
  auto first = ours().allocate(8 * mib);
  ours().endAllocateToPool(device, id);
  ours().releasePool(device, id);
  ours().resetAccumulatedStats(device);
  // Its memory is a graph's no more, and the tensor keeps it.
  ours().emptyCache();
  ours().beginAllocateToPool(device, id, any_stream);
  auto second = ours().allocate(4 * mib);
  ours().endAllocateToPool(device, id);
  check_equal(bytes(), 12 * mib, "reserved bytes of both");
  check_equal(stats().num_device_alloc, 1, "allocations since the reset");
  CHECK(ours().checkPoolLiveAllocations(device, id, {second.get()}));
  std::size_t total = 0;
  for (auto const& segment : ours().snapshot().segments) {
    CHECK(segment.owner_private_pool_id == id);
    total += segment.total_size;
  }
  check_equal(total, 12 * mib, "bytes of the snapshot");
  first.clear();
  ours().emptyCache();
  check_equal(bytes(), 4 * mib, "reserved bytes of the second");
  check_equal(stats().num_device_free, 1, "frees");
  ours().releasePool(device, id);
  second.clear();
  ours().emptyCache();
  check_equal(bytes(), 0U, "reserved bytes at the end");
}

TEST(memory_of_the_captured_stream_that_a_capture_frees_is_the_graphs_until_it_is_gone)
{
  auto const stream = c10::cuda::getStreamFromPool();
  auto const id     = new_id();
  auto const shared = new_id();
  ours().createOrIncrefPool(device, shared);
  ours().emptyCache();
  auto const before = reserved(ours());
  on(stream, [&] {
    for (int i = 0; i < 3; ++i) {
      auto block          = ours().allocate(8 * mib);
      auto const other    = c10::cuda::getDefaultCUDAStream();
      auto on_other       = on(other, [] { return ours().allocate(kib); });
      auto* const address = block.get();
      auto const active   = ours().getDeviceStats(device).active[0].current;
      capture graph{id, stream, TORCH_VERSION_MINOR};
      ours().beginAllocateToPool(device, shared, any_stream);
      use(block, 8 * mib, stream);
      block.clear();
      on_other.clear();
      ours().endAllocateToPool(device, shared);
      ours().releasePool(device, shared);
      graph.end();
      check_equal(ours().getDeviceStats(device).active[0].current, active - 2, "active blocks");
      // A replay may use it.
      CHECK(ours().allocate(8 * mib).get() != address);
      ours().emptyCache();
      CHECK(reserved(ours()) >= before + static_cast<std::int64_t>(8 * mib));
      ours().releasePool(device, id);
      ours().emptyCache();
      check_equal(reserved(ours()), before, "reserved bytes once the graph is gone");
    }
  });
  ours().releasePool(device, shared);
  ours().emptyCache();
}

TEST(a_thread_that_holds_captures_back_may_do_so_again)
{
  using rmm_rs_torch::captures_held_back;
  std::future<void> announced;
  {
    captures_held_back const first;
    CHECK(first);
    announced = std::async(std::launch::async, &rmm_rs_torch::announce_capture);
    while (!rmm_rs_torch::any_capture_announced()) { std::this_thread::yield(); }
    // As a pool that goes in a trim. The capture waits still.
    captures_held_back const again;
    CHECK(again);
    CHECK(announced.wait_for(std::chrono::milliseconds{20}) == std::future_status::timeout);
  }
  announced.get();
  CHECK(!captures_held_back{});
  rmm_rs_torch::withdraw_capture();
  CHECK(captures_held_back{});
}

TEST(a_capture_that_begins_waits_for_a_trim_and_stops_others)
{
  // The route of 2.13 announces nothing: it stays if the capture cannot begin.
  if (TORCH_VERSION_MINOR == 13) { return; }
  using entry       = caching::TraceEntry;
  auto const id     = new_id();
  auto const stream = c10::cuda::getStreamFromPool();
  auto const begin  = [&] {
    c10::cuda::CUDAStreamGuard const guard{stream};
    ours().beginAllocateToPool(device, id, &captured_streams);
  };
  auto const cache = [] {
    ours().allocate(8 * mib).clear();
    synchronize();
  };
  std::future<void> begun;
  auto status = std::future_status::ready;
  bool is_first = true;
  ours().attachAllocatorTraceTracker([&](entry const& e) {
    if (e.action_ != entry::SEGMENT_FREE || !std::exchange(is_first, false)) { return; }
    begun  = std::async(std::launch::async, begin);
    status = begun.wait_for(std::chrono::milliseconds{50});
  });
  cache();
  ours().emptyCache();
  CHECK(status == std::future_status::timeout);
  begun.get();
  // PyTorch begins the capture now: a wait for the device would break it.
  cache();
  auto const before = reserved(ours());
  CHECK(before > 0);
  ours().emptyCache();
  check_equal(reserved(ours()), before, "reserved bytes before the capture");
  on(stream, [&] {
    begin_capture(stream);
    ours().emptyCache();
    check_equal(reserved(ours()), before, "reserved bytes in the capture");
    end_capture_unused(stream);
    ours().endAllocateToPool(device, id);
  });
  ours().emptyCache();
  check_equal(reserved(ours()), 0, "reserved bytes after the capture");
  // A capture that cannot begin holds nothing up once its route has ended.
  begin();
  ours().endAllocateToPool(device, id);
  cache();
  ours().emptyCache();
  check_equal(reserved(ours()), 0, "reserved bytes at the end");
  for (int i = 0; i < 2; ++i) { ours().releasePool(device, id); }
}
