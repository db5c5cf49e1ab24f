// An allocator that starts empty and grows, with idle streams and with busy ones, as `../src/workloads/growth.rs` has it.
#pragma once

#include "bursts.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace peers {

// What the allocator holds for each byte that the work needs at least.
inline void reserved_row(row_writer const& row, char const* name, allocator const& on, program const& work)
{
  if (on.reserved) {
    row(name, "reserved / live", static_cast<double>(on.reserved()) / static_cast<double>(work.peak_live()), "x");
  }
}

inline void grow(kind const& of, extent const& how, row_writer const& row)
{
  constexpr std::size_t count = 4'000;
  auto const work             = allocations(random_ops::growing(), how.scaled(count));
  std::vector<void*> blocks(work.slots);
  streams const all{work.streams};
  std::vector<double> values;
  // The first one is not counted. Each begins with a new allocator.
  for (std::size_t run = 0; run <= how.repetitions(); ++run) {
    auto const on    = of.make(start::empty);
    auto const value = timed_play(on, work, all, blocks);
    if (run > 0) { values.push_back(value); }
    if (run == how.repetitions()) {
      row("grow", "blocks=" + std::to_string(count), median(values), "ns/op");
      reserved_row(row, "grow", on, work);
    }
    for (auto const& op : work.ops) {
      on.deallocate(blocks[op.slot], op.size, all[op.stream]);
    }
    check(cudaDeviceSynchronize());
  }
}

// Small blocks in turn on a few streams, each freed behind a fill of other memory, as
// `../src/workloads/multi_stream.rs` has it.
inline void multi_stream(kind const& of, extent const& how, row_writer const& row)
{
  constexpr std::size_t count = 8;
  auto const bytes            = how.repetitions() > 1 ? std::size_t{256} << 20 : std::size_t{64} << 10;
  for (std::size_t used = 1; used <= 4; ++used) {
    streams const all{used};
    std::vector<void*> work(used);
    for (auto& memory : work) { check(cudaMalloc(&memory, bytes)); }
    auto const round = [&](allocator const& on) {
      check(cudaDeviceSynchronize());
      auto const begin = steady::now();
      for (std::size_t block = 0; block < count; ++block) {
        auto const stream  = all[block % used];
        void* const memory = on.allocate(8, stream);
        check(cudaMemsetAsync(work[block % used], 1, bytes, stream));
        on.deallocate(memory, 8, stream);
      }
      check(cudaDeviceSynchronize());
      return std::chrono::duration<double, std::micro>(steady::now() - begin).count();
    };
    std::vector<double> cold;
    std::vector<double> warm;
    auto const kept = of.make(start::empty);
    // The first of each is not counted.
    for (std::size_t run = 0; run <= how.repetitions(); ++run) {
      auto const fresh = round(of.make(start::empty));
      auto const again = round(kept);
      if (run > 0) {
        cold.push_back(fresh);
        warm.push_back(again);
      }
    }
    auto const params = "streams=" + std::to_string(used);
    row("multi-stream", params + " cold", median(cold), "us/round");
    row("multi-stream", params + " warm", median(warm), "us/round");
    for (auto const memory : work) { check(cudaFree(memory)); }
  }
}

// Each block is filled by its stream before it is freed.
inline void busy(kind const& of, extent const& how, row_writer const& row)
{
  auto const work = how.scaled(random_ops::busy()).build();
  std::vector<void*> blocks(work.slots);
  streams const all{work.streams};
  auto const on = of.make(start::empty);
  std::vector<double> of_host;
  std::vector<double> of_device;
  auto const calls = static_cast<double>(work.ops.size());
  for (std::size_t run = 0; run <= how.repetitions(); ++run) {
    auto const begin = steady::now();
    for (auto const& op : work.ops) {
      auto const stream = all[op.stream];
      if (op.is_allocation) {
        blocks[op.slot] = on.allocate(op.size, stream);
        check(cudaMemsetAsync(blocks[op.slot], 1, op.size, stream));
      } else {
        on.deallocate(blocks[op.slot], op.size, stream);
      }
    }
    auto const host = nanoseconds(steady::now() - begin) / calls;
    check(cudaDeviceSynchronize());
    if (run > 0) {
      of_host.push_back(host);
      of_device.push_back(nanoseconds(steady::now() - begin) / calls);
    }
  }
  row("busy", "host", median(of_host), "ns/op");
  row("busy", "with the device's work", median(of_device), "ns/op");
  reserved_row(row, "busy", on, work);
}

}  // namespace peers
