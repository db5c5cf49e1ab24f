// Each measuring thread on a processor of its own, as `../src/pin.rs` does for the allocators of this repository.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace peers {

// The processors that this process may run on, once threads are to be pinned; read before the first one is.
inline std::vector<int>& processors()
{
  static std::vector<int> all;
  return all;
}

// Keeps the calling thread, number `place` of `threads` at once, on a processor of its own: the last ones first. Where there are too few for
// all of them, it may run on each. A new thread begins on the processor of the one that made it, so each has to call this.
inline void pin_thread(std::size_t place, std::size_t threads)
{
  auto const& all = processors();
  if (all.empty()) { return; }
  cpu_set_t set;
  CPU_ZERO(&set);
  if (threads <= all.size()) {
    CPU_SET(all[all.size() - 1 - place], &set);
  } else {
    for (int one : all) {
      CPU_SET(one, &set);
    }
  }
  // Where the system does not allow it, threads move: the figures vary more.
  (void)sched_setaffinity(0, sizeof set, &set);
}

// Pins the calling thread, and from now on each that calls `pin_thread`; then keeps the processor busy until its clock has risen. For after
// the driver's start, whose threads would stay on this processor, too.
inline void pin_threads()
{
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) { return; }
  for (int one = 0; one < CPU_SETSIZE; ++one) {
    if (CPU_ISSET(one, &set)) { processors().push_back(one); }
  }
  pin_thread(0, 1);
  auto const begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds{300}) {
    __builtin_ia32_pause();
  }
}

}  // namespace peers
