// What is timed: the same work, in the same words, as `../src/workloads/` does for the allocators of this repository.
#pragma once

#include "adaptors.hpp"
#include "allocators.hpp"
#include "ops.hpp"
#include "pin.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace peers {

using steady = std::chrono::steady_clock;

inline double nanoseconds(steady::duration time)
{
  return std::chrono::duration<double, std::nano>(time).count();
}

// How much of each workload is done.
struct extent {
  bool quick;             // just enough to see that everything runs
  std::string ops_folder; // where the recorded lists are

  [[nodiscard]] std::size_t repetitions() const { return quick ? 1 : 5; }
  [[nodiscard]] std::size_t scaled(std::size_t count) const
  {
    return quick ? std::max<std::size_t>(count / 50, 20) : count;
  }
  [[nodiscard]] random_ops scaled(random_ops asked) const
  {
    asked.steps = scaled(asked.steps);
    return asked;
  }
};

// Non-blocking streams. Allocators are made after them and go before them.
class streams {
 public:
  explicit streams(std::size_t count) : handles_(count)
  {
    for (auto& handle : handles_) {
      check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking));
    }
  }
  streams(streams const&)            = delete;
  streams& operator=(streams const&) = delete;
  ~streams()
  {
    for (auto handle : handles_) {
      cudaStreamDestroy(handle);
    }
  }
  cudaStream_t operator[](std::size_t place) const { return handles_[place]; }

 private:
  std::vector<cudaStream_t> handles_;
};

// One stream, whichever is asked for.
struct one_stream {
  cudaStream_t handle;
  cudaStream_t operator[](std::size_t) const { return handle; }
};

struct row_writer {
  std::string allocator;
  void operator()(char const* workload, std::string const& params, double value, char const* unit) const
  {
    std::printf("%s,%s,%s,%.4f,%s\n", workload, allocator.c_str(), params.c_str(), value, unit);
    std::fflush(stdout);
  }
};

inline double median(std::vector<double> values)
{
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Runs the work once uncounted and then `repetitions` times; the median of what it returned.
template <typename Work>
double median_of(std::size_t repetitions, Work work, steady::duration limit = steady::duration::max())
{
  std::vector<double> values;
  auto const begin = steady::now();
  for (std::size_t run = 0; run <= repetitions; ++run) {
    if (run > 1 && steady::now() - begin > limit) { break; }
    auto const value = work();
    if (run > 0) { values.push_back(value); }
    check(cudaDeviceSynchronize());
  }
  return median(std::move(values));
}

// The same, with fewer repetitions if they take more than some seconds: for work of many threads, which makes slow allocators slower.
template <typename Work>
double median_of_a_while(std::size_t repetitions, Work work)
{
  return median_of(repetitions, std::move(work), std::chrono::seconds{4});
}

template <typename Streams>
void play(allocator const& on, program const& work, Streams const& on_streams, std::vector<void*>& blocks)
{
  for (auto const& op : work.ops) {
    if (op.is_allocation) {
      blocks[op.slot] = on.allocate(op.size, on_streams[op.stream]);
    } else {
      on.deallocate(blocks[op.slot], op.size, on_streams[op.stream]);
    }
  }
}

// One run of a list, in nanoseconds a call.
template <typename Streams>
double timed_play(allocator const& on, program const& work, Streams const& on_streams, std::vector<void*>& blocks)
{
  auto const begin = steady::now();
  play(on, work, on_streams, blocks);
  return nanoseconds(steady::now() - begin) / static_cast<double>(work.ops.size());
}

inline double timed_pairs(allocator const& on, std::size_t size, cudaStream_t stream, std::size_t pairs)
{
  auto const begin = steady::now();
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    on.deallocate(on.allocate(size, stream), size, stream);
  }
  return nanoseconds(steady::now() - begin) / static_cast<double>(pairs);
}

inline void pair(kind const& of, extent const& how, row_writer const& row)
{
  auto const pairs = how.scaled(of.work == serves::little ? 500 : 50'000);
  for (std::size_t size : {std::size_t{256}, std::size_t{4} << 10, std::size_t{1} << 20}) {
    streams const one{1};
    auto const on    = of.make(start::full);
    auto const value = median_of(how.repetitions(), [&] { return timed_pairs(on, size, one[0], pairs); });
    row("pair", "size=" + std::to_string(size), value, "ns/pair");
  }
}

// Pairs of a resource, pairs through an adaptor over it, and what the adaptor adds.
struct turns {
  double bare;
  double adapted;
  double added;
};

// The medians of both, and of their differences turn by turn.
inline turns in_turns(extent const& how, allocator const& bare, allocator const& adapted)
{
  constexpr std::size_t size = 4 << 10;
  auto const count           = how.quick ? std::size_t{3} : std::size_t{51};
  auto const pairs           = how.scaled(5'000);
  streams const one{1};
  std::vector<double> of_bare;
  std::vector<double> of_adapted;
  std::vector<double> added;
  for (std::size_t turn = 0; turn <= count; ++turn) {
    auto const without = timed_pairs(bare, size, one[0], pairs);
    auto const with    = timed_pairs(adapted, size, one[0], pairs);
    check(cudaDeviceSynchronize());
    if (turn == 0) { continue; }
    of_bare.push_back(without);
    of_adapted.push_back(with);
    added.push_back(with - without);
  }
  return {median(of_bare), median(of_adapted), median(added)};
}

// Pairs of a pool, and through an adaptor over that pool; and what the adaptor adds to a resource that does nothing.
inline void adaptor_pairs(kind const&, extent const& how, row_writer const& row)
{
  for (auto const& [name, over] : adaptors<rmm::mr::pool_memory_resource>()) {
    rmm::mr::pool_memory_resource const pool{rmm::mr::cuda_memory_resource{}, pool_bytes};
    auto const turns = in_turns(how, of_resource(pool), over(pool));
    row("adaptor", name, turns.adapted, "ns/pair");
    row("adaptor_bare", name, turns.bare, "ns/pair");
    row("adaptor_own", name, turns.added, "ns/pair");
  }
  for (auto const& [name, over] : adaptors<nothing>()) {
    // That one would have the driver move the memory, which is not there.
    if (std::string_view{name} == "prefetch") { continue; }
    row("adaptor_over_nothing", name, in_turns(how, of_resource(nothing{}), over(nothing{})).added, "ns/pair");
  }
}

// Pairs beside free blocks that are too small, which a search would have to pass.
inline void holes(kind const& of, extent const& how, row_writer const& row)
{
  constexpr std::size_t hole   = 2 << 10;
  constexpr std::size_t wanted = 4 << 10;
  for (std::size_t count : {0, 10, 100, 1'000, 10'000}) {
    if (how.quick && count > 100) { break; }
    streams const one{1};
    auto const on = of.make(start::full);
    std::vector<void*> blocks(2 * count);
    for (auto& block : blocks) {
      block = on.allocate(hole, one[0]);
    }
    auto const free_from = [&](std::size_t first) {
      for (auto place = first; place < blocks.size(); place += 2) {
        on.deallocate(blocks[place], hole, one[0]);
      }
    };
    free_from(0);
    check(cudaDeviceSynchronize());
    auto const pairs = how.scaled(count >= 1'000 ? 1'000 : 20'000);
    auto const value = median_of(how.repetitions(), [&] { return timed_pairs(on, wanted, one[0], pairs); });
    row("holes", "H=" + std::to_string(count), value, "ns/pair");
    free_from(1);
  }
}

inline void random(kind const& of, extent const& how, row_writer const& row)
{
  for (std::uint32_t count : {1U, 8U}) {
    auto asked = random_ops::single_thread(count);
    if (of.work == serves::little) { asked.steps = 2'000; }
    auto const work = how.scaled(asked).build();
    streams const all{work.streams};
    auto const on = of.make(start::full);
    std::vector<void*> blocks(work.slots);
    auto const value = median_of(how.repetitions(), [&] { return timed_play(on, work, all, blocks); });
    row("random", "streams=" + std::to_string(count), value, "ns/op");
    if (count == 1 && on.reserved) {
      row("random", "reserved", static_cast<double>(on.reserved()) / (1 << 20), "MiB");
    }
  }
}

// On 256 streams, as servers have them.
inline void many_streams(kind const& of, extent const& how, row_writer const& row)
{
  constexpr std::uint32_t count = 256;
  auto const work               = how.scaled(random_ops::single_thread(count)).build();
  streams const all{count};
  auto const on = of.make(start::full);
  std::vector<void*> blocks(work.slots);
  auto const value = median_of(how.repetitions(), [&] { return timed_play(on, work, all, blocks); });
  row("streams", "streams=" + std::to_string(count), value, "ns/op");
}

// Blocks that no cache of small ones keeps.
inline void large(kind const& of, extent const& how, row_writer const& row)
{
  auto const work = how.scaled(random_ops::large()).build();
  streams const all{work.streams};
  auto const on = of.make(start::full);
  std::vector<void*> blocks(work.slots);
  auto const value = median_of(how.repetitions(), [&] { return timed_play(on, work, all, blocks); });
  row("large", "2 to 256 MiB", value, "ns/op");
}

// The same list as `random` on one stream, with the clock read around each allocation.
inline void allocate(kind const& of, extent const& how, row_writer const& row)
{
  auto asked = random_ops::single_thread(1);
  if (of.work == serves::little) { asked.steps = 2'000; }
  auto const work = how.scaled(asked).build();
  streams const all{work.streams};
  auto const on = of.make(start::full);
  std::vector<void*> blocks(work.slots);
  play(on, work, all, blocks);
  check(cudaDeviceSynchronize());
  std::vector<double> times;
  times.reserve(work.ops.size() * how.repetitions());
  for (std::size_t run = 0; run < how.repetitions(); ++run) {
    for (auto const& op : work.ops) {
      if (op.is_allocation) {
        auto const begin = steady::now();
        blocks[op.slot]  = on.allocate(op.size, all[op.stream]);
        times.push_back(nanoseconds(steady::now() - begin));
      } else {
        on.deallocate(blocks[op.slot], op.size, all[op.stream]);
      }
    }
    check(cudaDeviceSynchronize());
  }
  std::sort(times.begin(), times.end());
  for (auto const& [name, per_mille] : {std::pair{"p50", 500}, {"p99", 990}, {"p99.9", 999}}) {
    row("allocate", name, times[std::min(times.size() * per_mille / 1000, times.size() - 1)], "ns");
  }
}

// When a thread began and ended its part.
struct span {
  steady::time_point begin;
  steady::time_point end;
};

// From the first that began to the last that ended.
inline double all_at_once(std::vector<span> const& spans)
{
  auto begin = spans.front().begin;
  auto end   = spans.front().end;
  for (auto const& span : spans) {
    begin = std::min(begin, span.begin);
    end   = std::max(end, span.end);
  }
  return nanoseconds(end - begin);
}

// So many threads at once, each with a list and a stream of its own.
class at_once {
 public:
  template <typename Asked>
  at_once(std::size_t count, Asked asked_of)
  {
    for (std::size_t thread = 0; thread < count; ++thread) {
      work_.push_back(asked_of(thread).build());
      stream_of_.push_back(std::make_unique<streams>(1));
      calls_ += work_.back().ops.size();
    }
  }

  // Million calls a second.
  template <typename On>
  [[nodiscard]] double run(On const& on) const
  {
    auto const count = work_.size();
    std::barrier ready{static_cast<std::ptrdiff_t>(count)};
    std::vector<span> spans(count);
    std::vector<std::thread> running;
    for (std::size_t thread = 0; thread < count; ++thread) {
      running.emplace_back([&, thread] {
        pin_thread(thread, count);
        check(cudaSetDevice(0));
        std::vector<void*> blocks(work_[thread].slots);
        ready.arrive_and_wait();
        spans[thread].begin = steady::now();
        play(on, work_[thread], *stream_of_[thread], blocks);
        spans[thread].end = steady::now();
      });
    }
    for (auto& thread : running) {
      thread.join();
    }
    return static_cast<double>(calls_) / (all_at_once(spans) / 1e3);
  }

 private:
  std::vector<program> work_;
  std::vector<std::unique_ptr<streams>> stream_of_;
  std::size_t calls_{0};
};

inline void threads(kind const& of, extent const& how, row_writer const& row)
{
  bool const little = of.work == serves::little;
  for (std::size_t count : {1, 2, 4, 8, 16}) {
    if ((little && count != 1 && count != 16) || (how.quick && count > 2)) { continue; }
    at_once const all{count, [&](std::size_t thread) {
                        auto asked = random_ops::of_thread(thread);
                        if (little) { asked.steps = 1'000; }
                        return how.scaled(asked);
                      }};
    auto const on = of.make(start::full);
    row("threads", "T=" + std::to_string(count), median_of(how.repetitions(), [&] { return all.run(on); }), "Mops/s");
  }
}

inline void threads_large(kind const& of, extent const& how, row_writer const& row)
{
  at_once const all{16, [&](std::size_t thread) { return how.scaled(random_ops::large_of_thread(thread)); }};
  auto const on    = of.make(start::full);
  auto const value = median_of_a_while(how.repetitions(), [&] { return all.run(on); });
  row("threads-large", "T=16 1 to 64 MiB", value, "Mops/s");
}

inline void threads_empty(kind const& of, extent const& how, row_writer const& row)
{
  at_once const all{16, [&](std::size_t thread) { return how.scaled(random_ops::of_thread(thread)); }};
  auto const on      = of.make(start::empty);
  auto const warm_up = std::chrono::milliseconds{how.scaled(1'000)};
  for (auto const begin = steady::now(); steady::now() - begin < warm_up;) {
    static_cast<void>(all.run(on));
  }
  auto const value = median_of_a_while(how.repetitions(), [&] { return all.run(on); });
  row("threads-empty", "T=16 own streams", value, "Mops/s");
}

// Spins for a while, then lets others run between looks.
template <typename Done>
void wait_until(Done done)
{
  for (int looks = 0; !done(); ++looks) {
    if (looks < 64) {
      __builtin_ia32_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

// One thread allocates on one stream, another frees on another.
inline void handoff(kind const& of, extent const& how, row_writer const& row)
{
  constexpr std::size_t size = 4 << 10;
  auto const pairs           = how.scaled(50'000);
  streams const both{2};
  auto const on    = of.make(start::full);
  auto const value = median_of(how.repetitions(), [&] {
    std::vector<std::atomic<void*>> ring(1024);
    std::barrier ready{2};
    std::vector<span> spans(2);
    std::thread allocating{[&] {
      pin_thread(0, 2);
      check(cudaSetDevice(0));
      ready.arrive_and_wait();
      spans[0].begin = steady::now();
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        auto& slot = ring[pair % ring.size()];
        wait_until([&] { return slot.load(std::memory_order_acquire) == nullptr; });
        slot.store(on.allocate(size, both[0]), std::memory_order_release);
      }
      spans[0].end = steady::now();
    }};
    std::thread freeing{[&] {
      pin_thread(1, 2);
      check(cudaSetDevice(0));
      ready.arrive_and_wait();
      spans[1].begin = steady::now();
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        auto& slot  = ring[pair % ring.size()];
        void* block = nullptr;
        wait_until([&] { return (block = slot.load(std::memory_order_acquire)) != nullptr; });
        slot.store(nullptr, std::memory_order_release);
        on.deallocate(block, size, both[1]);
      }
      spans[1].end = steady::now();
    }};
    allocating.join();
    freeing.join();
    return all_at_once(spans) / static_cast<double>(pairs);
  });
  row("handoff", "4096", value, "ns/pair");
}

// A recorded list: first from an empty pool that grows, then as often again as it takes for a median.
inline void replay(kind const& of, extent const& how, row_writer const& row)
{
  for (std::string const name : {"etl-streams", "gnn-train", "gpt2-train", "resnet-train"}) {
    auto const work = read_ops(how.ops_folder + "/" + name + ".csv");
    streams const all{work.streams};
    auto const on = of.make(start::empty);
    std::vector<void*> blocks(work.slots);
    bool cold        = true;
    auto const value = median_of(how.repetitions(), [&] {
      auto const time = timed_play(on, work, all, blocks);
      if (std::exchange(cold, false)) {
        row("replay_cold", name, time, "ns/op");
        if (on.reserved) {
          auto const reserved = static_cast<double>(on.reserved());
          row("replay_reserved_over_peak", name, reserved / static_cast<double>(work.peak_live()), "x");
        }
      }
      return time;
    });
    row("replay", name, value, "ns/op");
  }
}

}  // namespace peers
