// Many blocks allocated before any is freed, and streams that live for a few calls, as `../src/workloads/bursts.rs` has them.
#pragma once

#include "workloads.hpp"

#include <cstddef>
#include <vector>

namespace peers {

// The first allocations of a random list, none of which is freed before all are made.
inline program allocations(random_ops const& asked, std::size_t count)
{
  program first;
  for (auto op : asked.build().ops) {
    if (!op.is_allocation) { continue; }
    if (first.ops.size() == count) { break; }
    op.slot = static_cast<std::uint32_t>(first.ops.size());
    first.add(op);
  }
  return first;
}

// The same, and the frees in this order.
template <typename Order>
program burst(random_ops const& asked, std::size_t count, Order order)
{
  auto all = allocations(asked, count);
  for (std::size_t number = 0; number < count; ++number) {
    auto freed          = all.ops[order(number)];
    freed.is_allocation = false;
    all.add(freed);
  }
  return all;
}

inline void bursts(kind const& of, extent const& how, row_writer const& row)
{
  constexpr std::size_t count = 2'000;
  auto const timed            = [&](char const* name, auto order) {
    auto const work = burst(random_ops::burst(), count, order);
    std::vector<void*> blocks(work.slots);
    streams const all{work.streams};
    auto const on    = of.make(start::full);
    auto const value = median_of(how.repetitions(), [&] { return timed_play(on, work, all, blocks); });
    row("bursts", name, value, "ns/op");
  };
  timed("fifo", [](std::size_t number) { return number; });
  timed("lifo", [](std::size_t number) { return count - 1 - number; });
  timed("random", [](std::size_t number) { return number * 7'919 % count; });
}

// Ten allocations and ten frees on a stream that is then destroyed: what they add to the time of a stream alone.
inline void new_streams(kind const& of, extent const& how, row_writer const& row)
{
  auto const work  = burst(random_ops::burst(), 10, [](std::size_t number) { return number; });
  auto const count = how.scaled(500);
  std::vector<void*> blocks(work.slots);
  auto const on    = of.make(start::full);
  auto const value = median_of(how.repetitions(), [&] {
    steady::duration with{};
    for (std::size_t made = 0; made < count; ++made) {
      auto begin = steady::now();
      { streams const alone{1}; }
      with -= steady::now() - begin;
      begin = steady::now();
      {
        streams const one{1};
        play(on, work, one, blocks);
      }
      with += steady::now() - begin;
    }
    return nanoseconds(with) / static_cast<double>(count * work.ops.size());
  });
  row("new-streams", "calls=20", value, "ns/op");
}

}  // namespace peers
