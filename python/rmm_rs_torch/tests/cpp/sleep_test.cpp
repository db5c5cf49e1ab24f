// Memory of tags and of graphs that sleeps, and what is refused.
#include "harness.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

using namespace harness;

namespace {

constexpr c10::DeviceIndex device = 0;
constexpr c10::MempoolId_t own_pool{0, 0};

/// What puts memory to sleep, over virtual memory.
rmm_rs_torch::sleeper& all()
{
  ours("pool(virtual)");
  return rmm_rs_torch::installed_allocator().sleep();
}

std::uint64_t sleep(c10::MempoolId_t id, bool to_host) { return all().sleep(device, id, to_host, {}); }

/// Allocates in a region of a tag.
memory allocate_in(c10::MempoolId_t id, std::size_t bytes)
{
  struct guard {
    c10::MempoolId_t region;
    ~guard() { all().end_region(device, region); }
  } const inside{all().begin_region(device, id)};
  return ours().allocate(bytes);
}

std::size_t free_memory()
{
  std::size_t free  = 0;
  std::size_t total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

void write(memory const& block, std::vector<std::uint8_t> const& bytes)
{
  C10_CUDA_CHECK(cudaMemcpy(block.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
}

std::vector<std::uint8_t> read(memory const& block, std::size_t bytes)
{
  std::vector<std::uint8_t> found(bytes);
  C10_CUDA_CHECK(cudaMemcpy(found.data(), block.get(), bytes, cudaMemcpyDeviceToHost));
  return found;
}

bool has(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

/// The text of an error of a call.
template <class F>
std::string error_of(F call)
{
  return text_of_error<c10::Error>(call);
}

/// A graph that copies a block twice, over a block that its capture frees.
class copying_graph {
 public:
  copying_graph(memory const& from, std::size_t bytes) : stream_{c10::cuda::getStreamFromPool()}
  {
    c10::cuda::CUDAStreamGuard const guard{stream_};
    ours().beginAllocateToPool(device, id_, &captured_streams);
    begin_capture(stream_);
    auto const temporary = ours().allocate(bytes);
    output_              = ours().allocate(bytes);
    copy(temporary, from, bytes);
    copy(output_, temporary, bytes);
    inside_ = error_of([] { sleep(own_pool, true); });
    auto* const graph = end_capture(stream_);
    ours().endAllocateToPool(device, id_);
    C10_CUDA_CHECK(cudaGraphInstantiate(&executable_, graph, 0));
    C10_CUDA_CHECK(cudaGraphDestroy(graph));
  }
  ~copying_graph()
  {
    (void)cudaGraphExecDestroy(executable_);
    ours().releasePool(device, id_);
  }
  copying_graph(copying_graph const&) = delete;

  void replay()
  {
    C10_CUDA_CHECK(cudaGraphLaunch(executable_, stream_.stream()));
    synchronize();
  }
  [[nodiscard]] memory& output() { return output_; }
  [[nodiscard]] c10::MempoolId_t id() const { return id_; }
  /// The error of a sleep in the capture.
  [[nodiscard]] std::string const& inside() const { return inside_; }

 private:
  void copy(memory const& to, memory const& from, std::size_t bytes)
  {
    C10_CUDA_CHECK(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice,
                                   stream_.stream()));
  }

  c10::MempoolId_t id_{0, 77};
  c10::cuda::CUDAStream stream_;
  memory output_;
  cudaGraphExec_t executable_{nullptr};
  std::string inside_;
};

std::vector<std::uint8_t> pattern(std::size_t bytes, int seed)
{
  std::vector<std::uint8_t> found(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    found[i] = static_cast<std::uint8_t>(i * 31 + static_cast<std::size_t>(seed) * 7);
  }
  return found;
}

}  // namespace

TEST(each_order_of_tags_asleep_and_awake_keeps_what_is_to_be_kept)
{
  std::array<int, 3> order{0, 1, 2};
  int round = 0;
  do {
    std::array<c10::MempoolId_t, 3> tags;
    std::array<memory, 3> blocks;
    auto const before = free_memory();
    for (int i = 0; i < 3; ++i) {
      tags[i]   = all().make_tag(device);
      blocks[i] = allocate_in(tags[i], (i + 1) * 3 * mib);
      write(blocks[i], pattern(1000, round + i));
    }
    auto const awake = free_memory();
    // The second tag is discarded.
    for (auto const i : order) {
      CHECK(sleep(tags[i], i != 1) >= (i + 1) * 3 * mib);
      CHECK(all().is_asleep(device, tags[i]));
      auto const usage = all().usage_of(device, tags[i]);
      CHECK(usage.reserved == 0 && usage.live == (i + 1) * 3 * mib && usage.asleep >= usage.live);
    }
    CHECK(free_memory() >= awake + 18 * mib);
    std::rotate(order.begin(), order.begin() + 1, order.end());
    for (auto const i : order) { CHECK(all().wake(device, tags[i]) >= (i + 1) * 3 * mib); }
    std::rotate(order.begin(), order.begin() + 2, order.end());
    CHECK(free_memory() <= awake + 2 * mib);
    for (auto const i : {0, 2}) { CHECK(read(blocks[i], 1000) == pattern(1000, round + i)); }
    write(blocks[1], pattern(1000, 5));
    CHECK(read(blocks[1], 1000) == pattern(1000, 5));
    CHECK(all().wake(device, tags[0]) == 0);
    for (int i = 0; i < 3; ++i) {
      blocks[i].clear();
      ours().releasePool(device, tags[i]);
    }
    ours().emptyCache();
    CHECK(free_memory() + 2 * mib >= before);
    ++round;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(graphs_replay_after_a_hundred_sleeps)
{
  constexpr std::size_t bytes = 300 * kib;
  all();
  auto const input = ours().allocate(bytes);
  copying_graph graph{input, bytes};
  CHECK(has(graph.inside(), "captured"));
  auto const weights = all().make_tag(device);
  auto const kept    = allocate_in(weights, bytes);
  write(kept, pattern(bytes, 3));
  CHECK(all().of_graphs().size() == 1);
  for (int i = 0; i < 100; ++i) {
    write(input, pattern(bytes, i));
    graph.replay();
    auto const before = free_memory();
    CHECK(sleep(graph.id(), true) > 0 && sleep(weights, true) > 0);
    CHECK(free_memory() >= before + 2 * bytes);
    all().wake(device, weights);
    all().wake(device, graph.id());
    // Without another replay: the outputs are as they were.
    CHECK(read(graph.output(), bytes) == pattern(bytes, i));
    write(input, pattern(bytes, i + 50));
    graph.replay();
    CHECK(read(graph.output(), bytes) == pattern(bytes, i + 50));
    CHECK(read(kept, bytes) == pattern(bytes, 3));
  }
}

TEST(what_a_graph_has_freed_is_there_after_a_sleep)
{
  all();
  auto const input = ours().allocate(kib);
  copying_graph graph{input, kib};
  write(input, pattern(kib, 9));
  graph.replay();
  auto* const address = graph.output().get();
  graph.output().clear();
  sleep(graph.id(), true);
  all().wake(device, graph.id());
  std::vector<std::uint8_t> found(kib);
  C10_CUDA_CHECK(cudaMemcpy(found.data(), address, kib, cudaMemcpyDeviceToHost));
  CHECK(found == pattern(kib, 9));
}

TEST(regions_nest_and_are_those_of_their_thread)
{
  auto const first  = all().make_tag(device);
  auto const second = all().make_tag(device);
  auto const live   = [](c10::MempoolId_t id) { return all().usage_of(device, id).live; };
  auto const outer  = all().begin_region(device, first);
  std::vector<memory> blocks;
  auto const inner = all().begin_region(device, second);
  auto const again = all().begin_region(device, first);
  blocks.push_back(ours().allocate(mib));
  CHECK(live(first) == mib && live(second) == 0);
  all().end_region(device, again);
  blocks.push_back(ours().allocate(2 * mib));
  CHECK(live(first) == mib && live(second) == 2 * mib);
  auto const outside = all().begin_region(device, own_pool);
  blocks.push_back(ours().allocate(4 * mib));
  CHECK(live(first) == mib && live(second) == 2 * mib);
  all().end_region(device, outside);
  std::thread{[&] {
    blocks.push_back(ours().allocate(8 * mib));
    CHECK(live(first) == mib && live(second) == 2 * mib);
    // The same tag on two threads.
    blocks.push_back(allocate_in(second, 16 * mib));
    CHECK(live(second) == 18 * mib);
  }}.join();
  auto const text = error_of([&] { sleep(first, true); });
  CHECK(has(text, "region"));
  all().end_region(device, inner);
  CHECK(sleep(second, false) > 0);
  all().end_region(device, outer);
  CHECK(sleep(first, false) > 0);
  all().wake(device, first);
  all().wake(device, second);
}

TEST(a_tag_that_sleeps_allocates_nothing_and_frees)
{
  auto const tag = all().make_tag(device);
  auto block     = allocate_in(tag, 3 * mib);
  auto other     = allocate_in(tag, 3 * mib);
  write(other, pattern(1000, 1));
  // With a recorded stream, which is waited for.
  auto recorded     = allocate_in(tag, mib);
  auto const stream = c10::cuda::getStreamFromPool();
  ours().recordStream(recorded, stream);
  recorded.clear();
  auto unused = allocate_in(tag, 64 * mib);
  unused.clear();
  // What is free goes back for good.
  CHECK(sleep(tag, true) < 16 * mib);
  auto const text = error_of([&] { (void)allocate_in(tag, kib); });
  CHECK(has(text, "asleep") && has(text, "Sleeper"));
  block.clear();
  CHECK(all().usage_of(device, tag).live == 3 * mib);
  // Other memory is not concerned.
  auto const free_of_it = ours().allocate(mib);
  std::vector<std::uint8_t> kept(500);
  auto const* const inside = static_cast<char const*>(other.get()) + 500;
  CHECK(all().read(other.get(), inside, kept.size(), kept.data()));
  auto const all_bytes = pattern(1000, 1);
  CHECK(std::equal(kept.begin(), kept.end(), all_bytes.begin() + 500));
  all().wake(device, tag);
  CHECK(!all().read(other.get(), inside, kept.size(), kept.data()));
  CHECK(read(other, 1000) == all_bytes);
  block = allocate_in(tag, 3 * mib);
}

TEST(memory_that_cannot_sleep_is_refused)
{
  ours("pool(cuda)");
  auto const text = error_of([] { all().make_tag(device); });
  CHECK(has(text, "virtual memory") && has(text, "install(\"pool\")"));
  auto const block = ours().allocate(kib);
  CHECK(has(error_of([] { sleep(own_pool, true); }), "install(\"pool\")"));
  CHECK(all().wake(device, own_pool) == 0);
}

TEST(memory_of_another_allocator_is_refused)
{
  native();
  all();
  c10::MempoolId_t const id{0, 55};
  std::shared_ptr<cuda_allocator> const foreign{&native(), [](cuda_allocator*) {}};
  ours().createOrIncrefPool(device, id, foreign);
  ours().beginAllocateToPool(device, id, [](cudaStream_t) { return true; });
  auto const block = ours().allocate(kib);
  ours().endAllocateToPool(device, id);
  CHECK(has(error_of([&] { sleep(id, true); }), "another allocator"));
}

TEST(memory_that_was_exported_is_refused)
{
  auto const tag   = all().make_tag(device);
  auto const other = all().make_tag(device);
  auto const block = allocate_in(tag, kib);
  auto const kept  = allocate_in(other, kib);
  (void)ours().shareIpcHandle(block.get());
  CHECK(has(error_of([&] { sleep(tag, true); }), "other processes"));
  CHECK(sleep(other, true) > 0);
  all().wake(device, other);
}

TEST(a_pool_that_a_capture_is_to_use_is_refused)
{
  all();
  c10::MempoolId_t const id{0, 33};
  // Its capture has not begun.
  ours().beginAllocateToPool(device, id, [](cudaStream_t) { return false; });
  auto const text = error_of([&] { all().check_may_sleep(device, id); });
  CHECK(has(text, "capture"));
  ours().endAllocateToPool(device, id);
  all().check_may_sleep(device, id);
  CHECK(sleep(id, true) == 0);
}

TEST(too_little_memory_leaves_a_tag_asleep)
{
  auto const tag   = all().make_tag(device);
  auto const block = allocate_in(tag, 64 * mib);
  write(block, pattern(1000, 4));
  sleep(tag, true);
  auto const left = free_memory();
  void* taken     = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&taken, left - 32 * mib));
  for (int i = 0; i < 2; ++i) {
    auto const text = text_of_error<c10::OutOfMemoryError>([&] { all().wake(device, tag); });
    CHECK(has(text, "CUDA out of memory"));
    CHECK(all().is_asleep(device, tag));
  }
  C10_CUDA_CHECK(cudaFree(taken));
  // What unused pools hold is given up for it, also one of graphs.
  c10::MempoolId_t const unused{0, 44};
  ours().beginAllocateToPool(device, unused, [](cudaStream_t) { return true; });
  auto idle = ours().allocate(left - 32 * mib);
  ours().endAllocateToPool(device, unused);
  ours().releasePool(device, unused);
  idle.clear();
  CHECK(all().wake(device, tag) >= 64 * mib);
  CHECK(read(block, 1000) == pattern(1000, 4));
}

TEST(a_block_of_a_tag_that_a_capture_frees_comes_back_with_its_graph)
{
  auto const tag    = all().make_tag(device);
  auto const stream = c10::cuda::getStreamFromPool();
  c10::MempoolId_t const id{0, 55};
  on(stream, [&] {
    auto block = allocate_in(tag, 4 * mib);
    ours().beginAllocateToPool(device, id, &captured_streams);
    begin_capture(stream);
    use(block, 4 * mib, stream);
    block.clear();
    end_capture_unused(stream);
    ours().endAllocateToPool(device, id);
  });
  auto const live = [tag] { return all().usage_of(device, tag).live; };
  ours().emptyCache();
  check_equal(live(), 4 * mib, "live bytes while a replay may use them");
  ours().releasePool(device, id);
  ours().emptyCache();
  check_equal(live(), 0U, "live bytes once the graph is gone");
}

TEST(the_default_pool_sleeps_if_it_is_named)
{
  all();
  auto const block = ours().allocate(kib);
  write(block, pattern(kib, 2));
  auto const reserved = ours().getDeviceStats(device).reserved_bytes[0].current;
  CHECK(sleep(own_pool, true) > 0);
  CHECK(ours().getDeviceStats(device).reserved_bytes[0].current < reserved);
  CHECK(has(error_of([] { (void)ours().allocate(kib); }), "asleep"));
  all().wake(device, own_pool);
  CHECK(ours().getDeviceStats(device).reserved_bytes[0].current == reserved);
  CHECK(read(block, kib) == pattern(kib, 2));
}
