// Pairs and random calls on the default streams, and pairs on a stream of another library, as `../src/workloads/defaults.rs` and
// `foreign.rs` have them.
#pragma once

#include "workloads.hpp"

#include <cstddef>
#include <vector>

namespace peers {

inline void on_default(
  kind const& of, extent const& how, row_writer const& row, char const* name, cudaStream_t stream)
{
  constexpr std::size_t size = 4 << 10;
  auto const pairs           = how.scaled(50'000);
  {
    auto const on    = of.make(start::full);
    auto const value = median_of(how.repetitions(), [&] { return timed_pairs(on, size, stream, pairs); });
    row(name, "size=4096", value, "ns/pair");
  }
  if (of.work == serves::pairs) { return; }
  auto const work = how.scaled(random_ops::single_thread(1)).build();
  auto const on   = of.make(start::full);
  std::vector<void*> blocks(work.slots);
  auto const value =
    median_of(how.repetitions(), [&] { return timed_play(on, work, one_stream{stream}, blocks); });
  row(name, "random", value, "ns/op");
}

inline void legacy(kind const& of, extent const& how, row_writer const& row)
{
  on_default(of, how, row, "legacy", cudaStreamLegacy);
}

inline void per_thread(kind const& of, extent const& how, row_writer const& row)
{
  on_default(of, how, row, "per-thread", cudaStreamPerThread);
}

// To these allocators a stream is a handle, whoever made it and however long it lives: the same is timed twice.
inline void foreign(kind const& of, extent const& how, row_writer const& row)
{
  constexpr std::size_t size = 4 << 10;
  auto const pairs           = how.scaled(50'000);
  for (auto const* end : {"known end", "unknown end"}) {
    streams const one{1};
    auto const on    = of.make(start::full);
    auto const value = median_of(how.repetitions(), [&] { return timed_pairs(on, size, one[0], pairs); });
    row("foreign", end, value, "ns/pair");
  }
}

}  // namespace peers
