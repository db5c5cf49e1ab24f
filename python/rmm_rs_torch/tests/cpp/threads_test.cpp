// Threads, devices and graphs together.
#include "harness.hpp"

#include <atomic>
#include <random>
#include <thread>

using namespace harness;

namespace {

constexpr c10::DeviceIndex device = 0;

}  // namespace

TEST(threads_allocate_free_and_record)
{
  ours().resetAccumulatedStats(device);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([seed, &failures] {
      try {
        std::mt19937 random{seed};
        auto const own  = c10::cuda::getStreamFromPool();
        auto const side = c10::cuda::getStreamFromPool();
        c10::cuda::CUDAStreamGuard const guard{own};
        std::vector<memory> live;
        for (int step = 0; step < 500; ++step) {
          auto const size = 1 + random() % (256 * kib);
          live.push_back(ours().allocate(size));
          use(live.back(), size, own);
          if (random() % 4 == 0) {
            // The other stream comes after this one.
            C10_CUDA_CHECK(cudaStreamSynchronize(own.stream()));
            use(live.back(), size, side);
            ours().recordStream(live.back(), side);
          }
          if (live.size() > 8) { live.erase(live.begin()); }
          if (random() % 100 == 0) { (void)ours().snapshot(); }
          if (random() % 100 == 0) { ours().emptyCache(); }
        }
      } catch (std::exception const& error) {
        std::printf("%s\n", error.what());
        ++failures;
      }
    });
  }
  for (auto& thread : threads) { thread.join(); }
  CHECK(failures == 0);
  synchronize();
  ours().emptyCache();
  auto const stats = ours().getDeviceStats(device);
  check_equal(stats.allocation[0].allocated, 4000, "allocations");
  check_equal(stats.allocation[0].freed, 4000, "frees");
  check_equal(stats.active_bytes[0].current, 0, "active bytes");
}

TEST(memory_is_freed_with_any_device_current)
{
  memory other;
  {
    c10::cuda::CUDAGuard const guard{c10::DeviceIndex{1}};
    other = ours().allocate(3 * kib);
    use(other, 3 * kib, c10::cuda::getCurrentCUDAStream(1));
    synchronize();
  }
  CHECK(other.device().index() == 1);
  CHECK(ours().getDeviceStats(1).allocation[0].current == 1);
  auto const own = ours().allocate(kib);
  CHECK(ours().getDeviceStats(1).allocation[0].current == 1);
  CHECK(ours().memcpyAsync(other.get(), 1, own.get(), 0, kib,
                           c10::cuda::getCurrentCUDAStream().stream(), false) == cudaSuccess);
  ours().enablePeerAccess(0, 1);
  ours().enablePeerAccess(0, 1);
  synchronize();
  std::thread{[&] { other.clear(); }}.join();
  CHECK(ours().getDeviceStats(1).allocation[0].current == 0);
  CHECK(ours().snapshot().segments.size() >= 2);
  check_equal(ours().getDeviceStats(device).num_ooms, 0, "failures");
}

TEST(other_work_does_not_get_memory_of_a_graph)
{
  auto const id     = c10::MempoolId_t{0, 500000};
  auto const stream = c10::cuda::getStreamFromPool();
  auto const second = c10::cuda::getStreamFromPool();
  cudaGraph_t graph = nullptr;
  cudaEvent_t fork  = nullptr;
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  std::vector<memory> before;
  for (int i = 0; i < 3; ++i) { before.push_back(ours().allocate(mib)); }
  memory output;
  on(stream, [&] {
    ours().beginAllocateToPool(device, id, &captured_streams);
    begin_capture(stream);
    auto temporary = ours().allocate(2 * mib);
    use(temporary, 2 * mib, stream);
    // A second stream joins, and allocates too.
    C10_CUDA_CHECK(cudaEventRecord(fork, stream.stream()));
    C10_CUDA_CHECK(cudaStreamWaitEvent(second.stream(), fork));
    output = on(second, [] { return ours().allocate(mib); });
    use(output, mib, second);
    use(temporary, mib, second);
    ours().recordStream(temporary, second);
    C10_CUDA_CHECK(cudaEventRecord(fork, second.stream()));
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream.stream(), fork));
    temporary.clear();
    // A free of other memory during the capture does not break it.
    before.pop_back();
    graph = end_capture(stream);
    ours().endAllocateToPool(device, id);
  });
  cudaGraphExec_t executable = nullptr;
  C10_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  auto const other = c10::cuda::getStreamFromPool();
  for (int i = 0; i < 5; ++i) {
    C10_CUDA_CHECK(cudaGraphLaunch(executable, stream.stream()));
    // Of which the software driver would report a use that nothing orders.
    std::vector<memory> blocks;
    for (int j = 0; j < 20; ++j) {
      blocks.push_back(on(other, [] { return ours().allocate(mib); }));
      use(blocks.back(), mib, other);
    }
  }
  synchronize();
  before.clear();
  output.clear();
  C10_CUDA_CHECK(cudaGraphExecDestroy(executable));
  C10_CUDA_CHECK(cudaGraphDestroy(graph));
  C10_CUDA_CHECK(cudaEventDestroy(fork));
  ours().releasePool(device, id);
  ours().emptyCache();
  check_equal(ours().getDeviceStats(device).active[0].current, 0, "active blocks");
  text_of_error<c10::Error>([&] { ours().getPoolUseCount(device, id); });
}

TEST(conditional_nodes_route_to_the_graphs_pool)
{
  auto const id     = c10::MempoolId_t{0, 600000};
  auto const parent = c10::cuda::getStreamFromPool();
  cudaGraph_t graphs[2] = {};
  on(parent, [&] {
    ours().beginAllocateToPool(device, id, &captured_streams);
    begin_capture(parent, cudaStreamCaptureModeRelaxed);
    auto const outer = ours().allocate(kib);
    ours().endAllocateToPool(device, id);
    cudaStream_t child = nullptr;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&child, cudaStreamNonBlocking));
    {
      // The child's capture has an id of its own.
      ours().beginAllocateToPool(device, id, [child](cudaStream_t s) { return s == child; });
      C10_CUDA_CHECK(cudaStreamBeginCapture(child, cudaStreamCaptureModeRelaxed));
      auto* const inner = ours().raw_alloc_with_stream(2 * kib, child);
      CHECK(ours().checkPoolLiveAllocations(device, id, {outer.get(), inner}));
      ours().raw_delete(inner);
      ours().endAllocateToPool(device, id);
      C10_CUDA_CHECK(cudaStreamEndCapture(child, &graphs[1]));
      C10_CUDA_CHECK(cudaStreamDestroy(child));
    }
    ours().beginAllocateToPool(device, id, &captured_streams);
    auto const last = ours().allocate(3 * kib);
    CHECK(ours().checkPoolLiveAllocations(device, id, {outer.get(), last.get()}));
    graphs[0] = end_capture(parent);
    ours().endAllocateToPool(device, id);
  });
  for (auto* const graph : graphs) { C10_CUDA_CHECK(cudaGraphDestroy(graph)); }
  // One use for each begin, as in native.
  CHECK(ours().getPoolUseCount(device, id) == 3);
  for (int i = 0; i < 3; ++i) { ours().releasePool(device, id); }
  ours().emptyCache();
  text_of_error<c10::Error>([&] { ours().getPoolUseCount(device, id); });
}
