// Tasks that change threads, and threads that share a stream, as `../src/workloads/migrate.rs` and `threads.rs` have them.
#pragma once

#include "workloads.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace peers {

constexpr std::size_t many_threads = 16;

// A barrier whose waiters spin: between rounds of a microsecond a wait in the kernel would be most of what is timed. `../src/rounds.rs` is the
// same one.
class spin_barrier {
 public:
  explicit spin_barrier(std::size_t threads)
    : threads_{threads}, spins_{threads <= std::thread::hardware_concurrency() ? 1'000 : 16}
  {
  }

  void wait()
  {
    auto const round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      // No thread arrives again before the round has changed.
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int looks = 0; round_.load(std::memory_order_acquire) == round; ++looks) {
      if (looks < spins_) {
        __builtin_ia32_pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  std::size_t threads_;
  int spins_;
  std::atomic<std::size_t> arrived_{0};
  std::atomic<std::size_t> round_{0};
};

// What failed first on some thread. The others go on to meet at the barrier, and make no more calls.
class first_failure {
 public:
  // Calls `work` unless something has failed.
  template <typename Work>
  void unless_failed(Work work)
  {
    if (failed_.load(std::memory_order_relaxed)) { return; }
    try {
      work();
    } catch (...) {
      if (!failed_.exchange(true)) { first_ = std::current_exception(); }
    }
  }
  // For when the threads have ended.
  void rethrow() const
  {
    if (first_) { std::rethrow_exception(first_); }
  }

 private:
  std::atomic<bool> failed_{false};
  std::exception_ptr first_;
};

// Does the work on new threads, given their numbers; nanoseconds from the first that began to the last that ended.
inline double on_threads(std::function<void(std::size_t, spin_barrier&, first_failure&)> const& work)
{
  spin_barrier barrier{many_threads};
  first_failure failure;
  std::vector<span> spans(many_threads);
  std::vector<std::thread> running;
  for (std::size_t thread = 0; thread < many_threads; ++thread) {
    running.emplace_back([&, thread] {
      pin_thread(thread, many_threads);
      failure.unless_failed([] { check(cudaSetDevice(0)); });
      barrier.wait();
      spans[thread].begin = steady::now();
      work(thread, barrier, failure);
      spans[thread].end = steady::now();
    });
  }
  for (auto& thread : running) {
    thread.join();
  }
  failure.rethrow();
  return all_at_once(spans);
}

// The random list of each thread, the tables of their blocks, and how many calls all make.
struct lists {
  std::vector<program> work;
  std::vector<std::vector<void*>> blocks;
  std::size_t calls   = 0;
  std::size_t longest = 0;

  explicit lists(extent const& how)
  {
    for (std::size_t thread = 0; thread < many_threads; ++thread) {
      work.push_back(how.scaled(random_ops::of_thread(thread)).build());
      blocks.emplace_back(work.back().slots);
      calls += work.back().ops.size();
      longest = std::max(longest, work.back().ops.size());
    }
  }

  [[nodiscard]] double mops(double nanoseconds) const { return static_cast<double>(calls) / (nanoseconds / 1e3); }
};

// In each round thread i makes the next calls of list i + round modulo the threads; a barrier is between rounds. The barrier alone is timed,
// too: with short rounds it is a good part of them.
inline void migrate(kind const& of, extent const& how, row_writer const& row)
{
  lists all{how};
  auto const prefix = "T=" + std::to_string(many_threads) + " ";
  for (std::size_t const calls_a_round : {1'000, 50}) {
    streams const stream_of{many_threads};
    auto const on    = of.make(start::full);
    auto const value = median_of_a_while(how.repetitions(), [&] {
      return all.mops(on_threads([&](std::size_t thread, spin_barrier& barrier, first_failure& failure) {
        for (std::size_t first = 0, round = 0; first < all.longest; first += calls_a_round, ++round) {
          auto const list = (thread + round) % many_threads;
          auto const& ops = all.work[list].ops;
          auto const end  = std::min(first + calls_a_round, ops.size());
          failure.unless_failed([&] {
            for (auto place = first; place < end; ++place) {
              auto const& op = ops[place];
              auto& block    = all.blocks[list][op.slot];
              if (op.is_allocation) {
                block = on.allocate(op.size, stream_of[list]);
              } else {
                on.deallocate(block, op.size, stream_of[list]);
              }
            }
          });
          barrier.wait();
        }
      }));
    });
    row("migrate", prefix + "calls=" + std::to_string(calls_a_round), value, "Mops/s");
  }
  auto const rounds = how.scaled(10'000);
  auto const value  = median_of(how.repetitions(), [&] {
    return on_threads([&](std::size_t, spin_barrier& barrier, first_failure&) {
             for (std::size_t round = 0; round < rounds; ++round) {
               barrier.wait();
             }
           }) /
           static_cast<double>(rounds);
  });
  row("migrate", prefix + "barrier", value, "ns/round");
}

// Sixteen threads at once, all on one stream.
inline void shared(kind const& of, extent const& how, row_writer const& row)
{
  lists all{how};
  streams const one{1};
  auto const on    = of.make(start::full);
  auto const value = median_of_a_while(how.repetitions(), [&] {
    return all.mops(on_threads([&](std::size_t thread, spin_barrier&, first_failure& failure) {
      failure.unless_failed([&] { play(on, all.work[thread], one_stream{one[0]}, all.blocks[thread]); });
    }));
  });
  row("shared", "T=" + std::to_string(many_threads), value, "Mops/s");
}

}  // namespace peers
