// Checkpoints of private pools, as graph trees use them.
#include "harness.hpp"

#include <algorithm>
#include <random>
#include <set>

using namespace harness;

namespace {

constexpr c10::DeviceIndex device = 0;

using state = std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState>;

bool any_stream(cudaStream_t) { return true; }

std::set<void*> addresses_of(std::vector<memory> const& blocks)
{
  std::set<void*> found;
  for (auto const& block : blocks) { found.insert(block.get()); }
  return found;
}

/// A pool whose blocks are known, with checkpoints.
class checked_pool {
 public:
  checked_pool(cuda_allocator& allocator, c10::MempoolId_t id) : allocator_{allocator}, id_{id}
  {
    allocator_.createOrIncrefPool(device, id_);
  }
  ~checked_pool()
  {
    live_.clear();
    allocator_.releasePool(device, id_);
    allocator_.emptyCache(id_);
  }

  void allocate(std::size_t bytes)
  {
    allocator_.beginAllocateToPool(device, id_, any_stream);
    live_.push_back(allocator_.allocate(bytes));
    allocator_.endAllocateToPool(device, id_);
    allocator_.releasePool(device, id_);
    use(live_.back(), bytes, c10::cuda::getCurrentCUDAStream());
    check_live();
  }
  void free(std::size_t index)
  {
    std::swap(live_.at(index), live_.back());
    live_.pop_back();
    check_live();
  }
  [[nodiscard]] std::size_t count() const { return live_.size(); }

  struct saved {
    state of_pool;
    std::set<void*> live;
  };
  saved save() { return {allocator_.getCheckpointState(device, id_), addresses_of(live_)}; }

  void restore(saved const& to)
  {
    auto delta = allocator_.setCheckpointPoolState(device, to.of_pool);
    // As PyTorch does: what was live is not freed by its old owner.
    std::set<void*> const freed(delta.ptrs_freed.begin(), delta.ptrs_freed.end());
    CHECK(freed == addresses_of(live_));
    CHECK(freed.size() == delta.ptrs_freed.size());
    for (auto& block : live_) { block.release_context(); }
    live_ = std::move(delta.dataptrs_allocd);
    CHECK(addresses_of(live_) == to.live);
    for (auto const& block : live_) {
      CHECK(block.get_deleter() == allocator_.raw_deleter() && block.get() == block.get_context());
      CHECK(block.device() == c10::Device(c10::DeviceType::CUDA, device));
    }
    check_live();
  }

 private:
  void check_live()
  {
    auto const live = addresses_of(live_);
    CHECK(allocator_.checkPoolLiveAllocations(device, id_, {live.begin(), live.end()}));
  }

  cuda_allocator& allocator_;
  c10::MempoolId_t id_;
  std::vector<memory> live_;
};

/// Random calls with checkpoints. Returns the statistics afterwards.
caching::DeviceStats run(cuda_allocator& allocator, unsigned seed)
{
  allocator.resetAccumulatedStats(device);
  allocator.resetPeakStats(device);
  std::mt19937 random{seed};
  auto const below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random);
  };
  checked_pool pool{allocator, {0, 200000 + seed}};
  pool.allocate(kib);
  std::vector<checked_pool::saved> saved;
  for (int step = 0; step < 200; ++step) {
    switch (auto const choice = below(10)) {
      case 0: saved.push_back(pool.save()); break;
      case 1:
        if (!saved.empty()) { pool.restore(saved[below(saved.size())]); }
        break;
      default:
        if (choice < 6 || pool.count() == 0) {
          pool.allocate(below(3) != 0 ? 1 + below(64 * kib) : (1 + below(3)) * 2 * mib);
        } else {
          pool.free(below(pool.count()));
        }
    }
  }
  return allocator.getDeviceStats(device);
}

}  // namespace

TEST(checkpoints_restore_exactly_what_was_allocated)
{
  for (unsigned seed = 1; seed <= 10; ++seed) {
    for (auto* const allocator : {&native(), &ours()}) { run(*allocator, seed); }
  }
}

TEST(memory_after_a_restore_serves_the_graphs_stream)
{
  auto const stream = c10::cuda::getStreamFromPool();
  checked_pool pool{ours(), {0, 300000}};
  on(stream, [&] { pool.allocate(mib); });
  auto const first    = pool.save();
  auto const reserved = [] { return ours().getDeviceStats(device).reserved_bytes[0].current; };
  on(stream, [&] { pool.allocate(8 * mib); });
  auto const before = reserved();
  for (int i = 0; i < 5; ++i) {
    // Another stream is the current one, as between graphs.
    pool.restore(first);
    on(stream, [&] { pool.allocate(8 * mib); });
    check_equal(reserved(), before, "reserved bytes");
  }
}

TEST(checkpoints_of_other_allocators_are_refused)
{
  ours().createOrIncrefPool(device, {0, 400000});
  auto const own = ours().getCheckpointState(device, {0, 400000});
  ours().releasePool(device, {0, 400000});
  ours().emptyCache();
  auto const gone = text_of_error<c10::Error>([&] { ours().setCheckpointPoolState(device, own); });
  CHECK(gone.find("is gone") != std::string::npos);
  auto const other = std::make_shared<c10::cuda::CUDACachingAllocator::AllocatorState>();
  text_of_error<c10::Error>([&] { ours().setCheckpointPoolState(device, other); });
  text_of_error<c10::Error>([&] { ours().getCheckpointState(device, {0, 400001}); });
}

TEST(checkpoints_are_taken_and_restored_beside_a_capture)
{
  auto const stream = c10::cuda::getStreamFromPool();
  auto const side   = c10::cuda::getStreamFromPool();
  checked_pool pool{ours(), {0, 500000}};
  pool.allocate(mib);
  // One of another pool that comes back after the capture.
  auto pending = ours().allocate(kib);
  busy_stream const busy{side};
  ours().recordStream(pending, side);
  pending.clear();
  auto const id = c10::MempoolId_t{0, 500001};
  on(stream, [&] {
    ours().beginAllocateToPool(device, id, [](cudaStream_t) { return false; });
    begin_capture(stream, cudaStreamCaptureModeRelaxed);
  });
  auto const saved = pool.save();
  pool.allocate(2 * mib);
  pool.restore(saved);
  end_capture_unused(stream);
  ours().endAllocateToPool(device, id);
  ours().releasePool(device, id);
}
