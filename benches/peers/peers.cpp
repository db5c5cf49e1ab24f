// Times the allocators that this repository compares itself with, on the work that it times its own on, and prints one row of CSV
// a figure: `workload,allocator,params,value,unit`. Nothing in it is needed by anything else.
#include "bursts.hpp"
#include "default_streams.hpp"
#include "growth.hpp"
#include "latency.hpp"
#include "migrate.hpp"
#include "workloads.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr auto usage =
  "usage: peers [--quick] [--ops FOLDER] [--workload NAME,...] --allocator NAME,...\n"
  "       peers --list\n";

struct workload {
  char const* name;
  void (*run)(peers::kind const&, peers::extent const&, peers::row_writer const&);
  bool (*can)(peers::kind const&);
};

bool anything(peers::kind const&) { return true; }
bool short_calls(peers::kind const& kind) { return kind.work != peers::serves::little; }
bool many_sizes(peers::kind const& kind) { return kind.work != peers::serves::pairs; }
bool long_lists(peers::kind const& kind) { return many_sizes(kind) && kind.work != peers::serves::little; }
bool other_streams(peers::kind const& kind) { return long_lists(kind) && kind.work != peers::serves::all_but_handoff; }
bool nothing(peers::kind const&) { return false; }
bool below_adaptors(peers::kind const& kind) { return kind.name == "pool"; }

constexpr workload workloads[]{
  {"pair", peers::pair, anything},
  {"legacy", peers::legacy, short_calls},
  {"per-thread", peers::per_thread, short_calls},
  {"foreign", peers::foreign, short_calls},
  {"adaptor", peers::adaptor_pairs, below_adaptors},
  {"holes", peers::holes, long_lists},
  {"random", peers::random, many_sizes},
  {"streams", peers::many_streams, long_lists},
  {"bursts", peers::bursts, long_lists},
  {"new-streams", peers::new_streams, long_lists},
  {"large", peers::large, long_lists},
  {"allocate", peers::allocate, many_sizes},
  {"threads", peers::threads, many_sizes},
  {"threads-large", peers::threads_large, long_lists},
  {"threads-empty", peers::threads_empty, long_lists},
  {"migrate", peers::migrate, long_lists},
  {"shared", peers::shared, long_lists},
  {"handoff", peers::handoff, other_streams},
  {"latency", peers::latency, long_lists},
  {"grow", peers::grow, long_lists},
  {"busy", peers::busy, long_lists},
  {"multi-stream", peers::multi_stream, many_sizes},
  {"replay", peers::replay, long_lists},
  // A library for Rust, whose slices our own runner times.
  {"cudarc", peers::pair, nothing},
  // Our own runner times the driver's copy beside the container's.
  {"copies", peers::pair, nothing},
  // Containers of ours, and the driver's own pool, which each runner would time alike.
  {"vector", peers::pair, nothing},
  {"priming", peers::pair, nothing},
  // None of the others has deadlines, or sleeps; RMM's pinned resource is one call of the driver.
  {"refusals", peers::pair, nothing},
  {"sleep", peers::pair, nothing},
  {"pinned", peers::pair, nothing},
};

std::set<std::string> words(std::string const& list)
{
  std::set<std::string> found;
  std::stringstream rest{list};
  for (std::string word; std::getline(rest, word, ',');) {
    found.insert(word);
  }
  return found;
}

struct arguments {
  peers::extent how{false, {}};
  std::set<std::string> allocators;
  std::set<std::string> workloads;
};

arguments read(int count, char** given)
{
  arguments read;
  std::vector<std::string> const rest(given + 1, given + count);
  for (std::size_t place = 0; place < rest.size(); ++place) {
    auto const value = [&]() -> std::string const& {
      if (++place == rest.size()) { throw std::runtime_error{rest.back() + " needs a value"}; }
      return rest[place];
    };
    auto const& word = rest[place];
    if (word == "--quick") {
      read.how.quick = true;
    } else if (word == "--ops") {
      read.how.ops_folder = value();
    } else if (word == "--allocator") {
      read.allocators = words(value());
    } else if (word == "--workload") {
      read.workloads = words(value());
    } else {
      throw std::runtime_error{word + " is not known\n" + usage};
    }
  }
  auto const known = [](auto const& names, auto const& all) {
    for (auto const& name : names) {
      if (std::none_of(std::begin(all), std::end(all), [&](auto const& one) { return name == one.name; })) {
        throw std::runtime_error{name + " is not known"};
      }
    }
  };
  known(read.allocators, peers::kinds());
  known(read.workloads, workloads);
  return read;
}

// Returns whether all was measured. What fails does not keep the rest from being measured.
bool run(arguments const& asked)
{
  bool succeeded = true;
  peers::check(cudaSetDevice(0));
  peers::check(cudaFree(nullptr));
  peers::pin_threads();
  std::puts("workload,allocator,params,value,unit");
  for (auto const& kind : peers::kinds()) {
    if (!asked.allocators.contains(kind.name)) { continue; }
    for (auto const& workload : workloads) {
      bool const wanted = asked.workloads.empty() || asked.workloads.contains(workload.name);
      bool const needs_ops = workload.run == peers::replay && asked.how.ops_folder.empty();
      if (wanted && !needs_ops && workload.can(kind)) {
        try {
          workload.run(kind, asked.how, {kind.name});
        } catch (std::exception const& error) {
          std::cerr << "peers: " << kind.name << ": " << workload.name << ": " << error.what() << '\n';
          succeeded = false;
        }
      }
    }
  }
  return succeeded;
}

}  // namespace

int main(int count, char** given)
{
  try {
    if (count == 2 && std::string{given[1]} == "--list") {
      for (auto const& kind : peers::kinds()) {
        std::puts(kind.name.c_str());
      }
      return 0;
    }
    return run(read(count, given)) ? 0 : 1;
  } catch (std::exception const& error) {
    std::cerr << "peers: " << error.what() << '\n';
    return 1;
  }
}
