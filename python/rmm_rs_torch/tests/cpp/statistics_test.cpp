// Statistics equal native's after the same calls.
#include "harness.hpp"

#include <random>

using namespace harness;

namespace {

/// The same program on one of the allocators, which must free all it has at the end.
template <class Program>
void run_on_both(Program program, bool exact_active)
{
  caching::DeviceStats after[2];
  cuda_allocator* const both[] = {&native(), &ours()};
  for (std::size_t i = 0; i < 2; ++i) {
    // Earlier tests of this process have counted.
    synchronize();
    both[i]->emptyCache();
    both[i]->resetAccumulatedStats(0);
    both[i]->resetPeakStats(0);
    after[i] = program(*both[i]);
  }
  compare(after[0], after[1], exact_active);
}

/// Random calls on some streams. Sizes are such that native splits blocks exactly: up to 1 MiB, or
/// multiples of 2 MiB.
class random_program {
 public:
  random_program(unsigned seed, bool with_streams) : seed_{seed}, with_streams_{with_streams} {}

  caching::DeviceStats operator()(cuda_allocator& allocator)
  {
    random_.seed(seed_);
    std::vector<c10::cuda::CUDAStream> streams{c10::cuda::getDefaultCUDAStream()};
    for (int i = 0; i < 3; ++i) { streams.push_back(c10::cuda::getStreamFromPool()); }
    std::vector<std::pair<memory, std::size_t>> live;
    std::size_t bytes = 0;
    for (int step = 0; step < 2000; ++step) {
      auto const stream = streams[below(streams.size())];
      auto const choice = below(100);
      if (choice < 45 && bytes < 128 * mib) {
        auto const size = below(4) != 0 ? 1 + below(mib) : (1 + below(4)) * 2 * mib;
        live.emplace_back(on(stream, [&] { return allocator.allocate(size); }), size);
        use(live.back().first, size, stream);
        bytes += size;
      } else if (choice < 90 && !live.empty()) {
        auto& chosen = live[below(live.size())];
        bytes -= chosen.second;
        std::swap(chosen, live.back());
        live.pop_back();
      } else if (choice < 96 && with_streams_ && !live.empty()) {
        auto& chosen = live[below(live.size())];
        // The other stream waits for the first use, as `wait_stream` does.
        synchronize();
        use(chosen.first, chosen.second, stream);
        allocator.recordStream(chosen.first, stream);
      } else if (choice == 96 || choice == 97) {
        // When events are queried is for the allocator to choose: after this none is left.
        if (with_streams_) { settled(allocator); }
        if (choice == 96) {
          allocator.resetPeakStats(0);
        } else {
          allocator.resetAccumulatedStats(0);
        }
      }
      if (step == 1500) { settled(allocator); }
    }
    settled(allocator);
    return allocator.getDeviceStats(0);
  }

 private:
  std::size_t below(std::size_t bound)
  {
    return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random_);
  }
  void settled(cuda_allocator& allocator) const
  {
    synchronize();
    allocator.emptyCache();
  }

  unsigned seed_;
  bool with_streams_;
  std::mt19937 random_;
};

}  // namespace

TEST(statistics_of_a_fixed_program_equal_native)
{
  auto const program = [](cuda_allocator& allocator) {
    auto const side  = c10::cuda::getStreamFromPool();
    auto const main_ = c10::cuda::getCurrentCUDAStream();
    auto const empty = allocator.allocate(0);
    CHECK(empty.get() == nullptr && empty.get_deleter() == allocator.raw_deleter());
    {
      auto const one      = allocator.allocate(1);
      auto const odd      = allocator.allocate(512 + 1);
      auto const limit    = allocator.allocate(mib);
      auto const large    = allocator.allocate(2 * mib);
      auto const by_other = on(side, [&] { return allocator.allocate(40 * kib); });
      use(by_other, 40 * kib, side);
      allocator.recordStream(large, main_);
    }
    allocator.resetPeakStats(0);
    auto* const raw = allocator.raw_alloc(300);
    auto* const on_stream = allocator.raw_alloc_with_stream(3000, side.stream());
    allocator.raw_delete(raw);
    allocator.raw_delete(nullptr);
    allocator.raw_delete(on_stream);
    auto const kept = allocator.allocate(700);
    auto const stats = allocator.getDeviceStats(0);
    CHECK(stats.reserved_bytes[0].current >= stats.active_bytes[0].current);
    return stats;
  };
  run_on_both(program, true);
}

TEST(the_peak_of_reserved_bytes_is_exact_after_a_reset)
{
  auto const program = [](cuda_allocator& allocator) {
    allocator.allocate(64 * mib).clear();
    synchronize();
    allocator.emptyCache();
    allocator.resetPeakStats(0);
    auto const reserved = [&] { return allocator.getDeviceStats(0).reserved_bytes[0]; };
    check_equal(reserved().peak, reserved().current, "the peak at the reset");
    auto const before = reserved().current;
    // Nobody asks while it is there.
    allocator.allocate(32 * mib).clear();
    synchronize();
    allocator.emptyCache();
    check_equal(reserved().peak, before + static_cast<std::int64_t>(32 * mib), "the peak");
    check_equal(reserved().current, before, "after the free");
  };
  program(native());
  program(ours());
}

TEST(segments_are_counted_from_a_reset_on)
{
  for (auto* const allocator : {&native(), &ours()}) {
    allocator->allocate(64 * mib).clear();
    synchronize();
    allocator->resetAccumulatedStats(0);
    allocator->emptyCache();
    auto const before = allocator->getDeviceStats(0).segment[0];
    check_equal(before.allocated, 0, "allocated");
    CHECK(before.freed > 0);
    auto const block = allocator->allocate(64 * mib);
    auto const after = allocator->getDeviceStats(0).segment[0];
    check_equal(after.allocated, 1, "allocated");
    check_equal(after.freed, before.freed, "freed");
    check_equal(after.current, before.current + 1, "segments");
  }
}

TEST(a_recorded_block_is_active_until_its_stream_is_done)
{
  auto const program = [](cuda_allocator& allocator) {
    auto const side  = c10::cuda::getStreamFromPool();
    auto const main_ = c10::cuda::getCurrentCUDAStream();
    auto block = allocator.allocate(4 * kib);
    use(block, 4 * kib, main_);
    C10_CUDA_CHECK(cudaStreamSynchronize(main_.stream()));
    {
      busy_stream const busy{side};
      use(block, 4 * kib, side);
      allocator.recordStream(block, side);
      auto* const address = block.get();
      block.clear();
      auto const freed = allocator.getDeviceStats(0);
      CHECK(freed.allocation[0].current == 0 && freed.active[0].current == 1);
      auto const other = allocator.allocate(4 * kib);
      CHECK(other.get() != address);
    }
    synchronize();
    allocator.emptyCache();
    auto const settled = allocator.getDeviceStats(0);
    CHECK(settled.active[0].current == 0);
    return settled;
  };
  run_on_both(program, true);
}

TEST(statistics_of_random_programs_equal_native)
{
  for (unsigned seed = 1; seed <= 10; ++seed) { run_on_both(random_program{seed, false}, true); }
}

TEST(statistics_of_random_programs_with_recorded_streams_equal_native)
{
  for (unsigned seed = 1; seed <= 10; ++seed) { run_on_both(random_program{seed, true}, false); }
}

TEST(statistics_of_a_device_that_is_not_there_are_an_error)
{
  check_equal(ours().getDeviceStats(1).allocation[0].current, 0, "blocks of an unused device");
  for (auto* const allocator : {&native(), &ours()}) {
    for (c10::DeviceIndex const device : {-1, 9}) {
      text_of_error<c10::Error>([&] { allocator->getDeviceStats(device); });
      text_of_error<c10::Error>([&] { allocator->resetPeakStats(device); });
      text_of_error<c10::Error>([&] { allocator->resetAccumulatedStats(device); });
    }
  }
}

// Convolutions choose by it among algorithms that need a workspace.
TEST(the_largest_block_that_fits_is_a_cached_one_or_the_device_s)
{
  synchronize();
  for (auto* const allocator : {&native(), &ours()}) {
    allocator->emptyCache();
    (void)allocator->allocate(8 * mib);
    std::size_t cached = 1;
    allocator->cacheInfo(0, &cached);
    CHECK(cached >= 8 * mib && cached < 64 * mib);
    std::size_t any = 0;
    allocator->cacheInfo(0, &any);
    CHECK(any > 64 * mib);
    allocator->emptyCache();
  }
}
