// The longest single calls beside many blocks, as `../src/workloads/latency.rs` has them.
#pragma once

#include "workloads.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace peers {

// Many blocks, of which every other one is free.
struct latency_case {
  std::size_t blocks;
  std::size_t streams;
  std::size_t threads;
};

constexpr latency_case latency_cases[]{
  {100'000, 1, 1},
  {100'000, 64, 1},
  {100'000, 1'024, 1},
  {100'000, 64, 4},
  {1'000'000, 1, 1},
  {1'000'000, 64, 1},
};

// What one thread may spend on the blocks, and again on the calls beside them.
constexpr std::chrono::seconds latency_most_time{2};
constexpr std::size_t latency_calls        = 10'000;
constexpr std::size_t latency_streams_gone = 8'000;
// More than a pool has.
constexpr std::size_t latency_growth = std::size_t{17} << 30;

struct latency_times {
  std::vector<double> allocate;
  std::vector<double> free;
  bool is_whole = true;
};

// 256 bytes to 8 KiB, as a random number says.
inline std::size_t some_size(splitmix64& random) { return (random.next() % 32 + 1) * 256; }

// One thread's share, on the streams from `first` on.
inline latency_times beside(allocator const& on,
                            streams const& all,
                            std::size_t first,
                            std::size_t count,
                            std::size_t blocks,
                            std::size_t calls,
                            splitmix64 random)
{
  latency_times times;
  std::vector<std::pair<void*, std::size_t>> made;
  made.reserve(blocks);
  auto const of       = [&](std::size_t place) { return all[first + place % count]; };
  auto const allocate = [&](std::size_t place) {
    auto const size  = some_size(random);
    auto const begin = steady::now();
    void* const made = on.allocate(size, of(place));
    times.allocate.push_back(nanoseconds(steady::now() - begin));
    return std::pair{made, size};
  };
  auto const free = [&](std::size_t place, std::pair<void*, std::size_t>& block) {
    auto const begin = steady::now();
    on.deallocate(block.first, block.second, of(place));
    times.free.push_back(nanoseconds(steady::now() - begin));
    block.first = nullptr;
  };
  auto begin        = steady::now();
  auto const has_time = [&] { return steady::now() - begin < latency_most_time; };
  while (made.size() < blocks && has_time()) {
    made.push_back(allocate(made.size()));
  }
  times.is_whole = made.size() == blocks;
  // What is made goes with the allocator, which is not used any more.
  if (!times.is_whole) { return times; }
  // The last first: a list by addresses takes them at its start.
  auto place = made.size();
  begin      = steady::now();
  while (place > 1 && has_time()) {
    place -= 2;
    free(place, made[place]);
  }
  times.is_whole = place <= 1;
  if (!times.is_whole) { return times; }
  begin          = steady::now();
  for (std::size_t call = 0; call < calls && has_time(); ++call) {
    auto block = allocate(call);
    free(call, block);
  }
  // The first first: each is a neighbour of what is free before it.
  for (std::size_t left = 0; left < made.size(); ++left) {
    if (made[left].first != nullptr) { free(left, made[left]); }
  }
  return times;
}

inline void beside_blocks(kind const& of, extent const& how, row_writer const& row, latency_case const& given)
{
  auto const params = "blocks=" + std::to_string(given.blocks) + " streams=" + std::to_string(given.streams) +
                      " threads=" + std::to_string(given.threads) + " ";
  streams const all{given.streams};
  auto const on     = of.make(start::full);
  auto const share  = given.streams / given.threads;
  auto const blocks = how.scaled(given.blocks) / given.threads;
  auto const calls  = how.scaled(latency_calls) / given.threads;
  std::vector<latency_times> of_threads(given.threads);
  std::vector<std::exception_ptr> errors(given.threads);
  std::barrier ready{static_cast<std::ptrdiff_t>(given.threads)};
  std::vector<std::thread> running;
  for (std::size_t thread = 0; thread < given.threads; ++thread) {
    running.emplace_back([&, thread] {
      try {
        pin_thread(thread, given.threads);
        // Also if this fails: the others wait for this thread.
        auto const selected = cudaSetDevice(0);
        ready.arrive_and_wait();
        check(selected);
        of_threads[thread] = beside(on, all, thread * share, share, blocks, calls, splitmix64{200 + thread});
      } catch (...) {
        errors[thread] = std::current_exception();
      }
    });
  }
  for (auto& thread : running) {
    thread.join();
  }
  for (auto const& error : errors) {
    if (!error) { continue; }
    try {
      std::rethrow_exception(error);
    } catch (std::bad_alloc const&) {
      // Bins take far more memory than such small blocks have.
      return;
    }
  }
  latency_times sum;
  for (auto const& times : of_threads) {
    sum.allocate.insert(sum.allocate.end(), times.allocate.begin(), times.allocate.end());
    sum.free.insert(sum.free.end(), times.free.begin(), times.free.end());
    sum.is_whole = sum.is_whole && times.is_whole;
  }
  // It would take minutes to make the blocks.
  if (!sum.is_whole) { return; }
  for (auto const& [call, times] : {std::pair{"allocate", &sum.allocate}, {"free", &sum.free}}) {
    std::sort(times->begin(), times->end());
    row("latency", params + call + " p99.99", (*times)[times->size() - 1 - times->size() / 10'000], "ns");
    row("latency", params + call + " longest", times->back(), "ns");
  }
  // The driver is asked for memory. What has none to add refuses.
  auto const begin = steady::now();
  try {
    void* const block = on.allocate(latency_growth, all[0]);
    row("latency", params + "growth", nanoseconds(steady::now() - begin), "ns");
    on.deallocate(block, latency_growth, all[0]);
  } catch (std::exception const&) {
  }
  check(cudaDeviceSynchronize());
}

// The first pair on a new stream after many others have come, have been used, and have gone.
inline void after_streams(kind const& of, extent const& how, row_writer const& row)
{
  auto const on   = of.make(start::full);
  auto const pair = [&](cudaStream_t stream) {
    constexpr std::size_t size = 4 << 10;
    auto const begin           = steady::now();
    on.deallocate(on.allocate(size, stream), size, stream);
    return nanoseconds(steady::now() - begin);
  };
  {
    streams const gone{how.scaled(latency_streams_gone)};
    for (std::size_t place = 0; place < how.scaled(latency_streams_gone); ++place) {
      pair(gone[place]);
    }
    check(cudaDeviceSynchronize());
  }
  streams const one{1};
  row("latency", "first use after " + std::to_string(latency_streams_gone) + " streams", pair(one[0]), "ns");
  check(cudaDeviceSynchronize());
}

// Percentiles of all calls of a long list, once warm: the median of each over the runs.
inline void each_call(kind const& of, extent const& how, row_writer const& row)
{
  auto const work = how.scaled(random_ops::timed()).build();
  streams const all{work.streams};
  auto const on = of.make(start::full);
  std::vector<void*> blocks(work.slots);
  play(on, work, all, blocks);
  check(cudaDeviceSynchronize());
  constexpr std::pair<char const*, std::size_t> names[]{
    {"p50", 2}, {"p99.9", 1'000}, {"p99.999", 100'000}, {"longest", static_cast<std::size_t>(-1)}};
  std::vector<double> of_runs[std::size(names)];
  std::vector<double> times(work.ops.size());
  for (std::size_t run = 0; run < how.repetitions(); ++run) {
    auto time = times.begin();
    for (auto const& op : work.ops) {
      auto const begin = steady::now();
      if (op.is_allocation) {
        blocks[op.slot] = on.allocate(op.size, all[op.stream]);
      } else {
        on.deallocate(blocks[op.slot], op.size, all[op.stream]);
      }
      *time++ = nanoseconds(steady::now() - begin);
    }
    check(cudaDeviceSynchronize());
    std::sort(times.begin(), times.end());
    for (std::size_t name = 0; name < std::size(names); ++name) {
      of_runs[name].push_back(times[times.size() - 1 - times.size() / names[name].second]);
    }
  }
  for (std::size_t name = 0; name < std::size(names); ++name) {
    row("latency", std::string{"random "} + names[name].first, median(of_runs[name]), "ns");
  }
}

inline void latency(kind const& of, extent const& how, row_writer const& row)
{
  for (auto const& given : latency_cases) {
    if (how.quick && (given.blocks > 100'000 || given.streams > 64)) { continue; }
    beside_blocks(of, how, row, given);
  }
  after_streams(of, how, row);
  each_call(of, how, row);
}

}  // namespace peers
