// The work: lists of allocations and frees that are the same for every allocator. `../README.md` says how random lists are built;
// `../src/protocol.rs` builds the same ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace peers {

// The alignment of all blocks, to which bytes in use are rounded up.
constexpr std::size_t alignment = 256;

struct op {
  bool is_allocation;
  std::uint32_t slot;  // where the block is kept while it is live
  std::uint32_t stream;
  std::size_t size;    // bytes; a free has those of its allocation
};

struct program {
  std::vector<op> ops;
  std::size_t slots   = 0;
  std::size_t streams = 0;

  void add(op const& next)
  {
    slots   = std::max<std::size_t>(slots, next.slot + 1);
    streams = std::max<std::size_t>(streams, next.stream + 1);
    ops.push_back(next);
  }

  // The most bytes live at once.
  [[nodiscard]] std::size_t peak_live() const
  {
    std::size_t live = 0;
    std::size_t peak = 0;
    for (auto const& op : ops) {
      auto const size = (op.size + alignment - 1) / alignment * alignment;
      live            = op.is_allocation ? live + size : live - size;
      peak            = std::max(peak, live);
    }
    return peak;
  }
};

class splitmix64 {
 public:
  explicit splitmix64(std::uint64_t seed) : state_{seed} {}

  std::uint64_t next()
  {
    state_ += 0x9E3779B97F4A7C15ULL;
    auto z = state_;
    z      = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z      = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

struct random_ops {
  std::uint64_t seed;
  std::size_t steps;
  unsigned lowest_exponent;
  unsigned highest_exponent;
  std::size_t most_bytes;
  std::size_t most_blocks;
  std::uint32_t streams;

  static random_ops single_thread(std::uint32_t streams)
  {
    auto const seed = streams == 1 ? 42U : streams == 256 ? 44U : 43U;
    return {seed, 100'000, 8, 24, std::size_t{8} << 30, 4096, streams};
  }

  static random_ops large() { return {44, 20'000, 21, 28, std::size_t{8} << 30, 64, 1}; }

  static random_ops busy() { return {45, 20'000, 16, 26, std::size_t{8} << 30, 1024, 8}; }

  static random_ops growing() { return {46, 200'000, 8, 24, std::size_t{8} << 30, std::size_t{1} << 20, 1}; }

  static random_ops burst() { return {48, 50'000, 8, 20, std::size_t{2} << 30, std::size_t{1} << 20, 1}; }

  static random_ops timed() { return {47, 1'000'000, 8, 16, std::size_t{8} << 30, 100'000, 1}; }

  static random_ops of_thread(std::size_t thread)
  {
    return {100 + thread, 50'000, 8, 20, std::size_t{256} << 20, 256, 1};
  }

  static random_ops large_of_thread(std::size_t thread)
  {
    return {200 + thread, 20'000, 20, 26, std::size_t{512} << 20, 16, 1};
  }

  [[nodiscard]] program build() const
  {
    splitmix64 random{seed};
    program built;
    std::vector<op> live;
    std::vector<std::uint32_t> free_slots;
    std::uint32_t slots = 0;
    std::size_t bytes   = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      auto const exponent = lowest_exponent + random.next() % (highest_exponent - lowest_exponent);
      auto const base     = std::size_t{1} << exponent;
      auto const size     = base + (random.next() & (base - 1));
      auto const choice   = random.next();
      bool const fits     = bytes + size <= most_bytes && live.size() < most_blocks;
      if (live.empty() || (fits && choice % 2 == 1)) {
        auto slot = slots;
        if (free_slots.empty()) {
          ++slots;
        } else {
          slot = free_slots.back();
          free_slots.pop_back();
        }
        live.push_back({true, slot, static_cast<std::uint32_t>((choice >> 1) % streams), size});
        bytes += size;
        built.add(live.back());
      } else {
        auto const place = (choice >> 8) % live.size();
        auto freed       = live[place];
        live[place]      = live.back();
        live.pop_back();
        free_slots.push_back(freed.slot);
        bytes -= freed.size;
        freed.is_allocation = false;
        built.add(freed);
      }
    }
    for (auto left : live) {
      left.is_allocation = false;
      built.add(left);
    }
    return built;
  }
};

// Reads what `protocol --write-ops` wrote: one call a line, `action,slot,size,stream`, after a line of headings.
inline program read_ops(std::string const& path)
{
  std::ifstream file{path};
  std::string line;
  if (!std::getline(file, line) || line != "action,slot,size,stream") {
    throw std::runtime_error{path + ": not a list of calls"};
  }
  program read;
  while (std::getline(file, line)) {
    std::stringstream fields{line};
    std::string action, slot, size, stream;
    std::getline(fields, action, ',');
    std::getline(fields, slot, ',');
    std::getline(fields, size, ',');
    std::getline(fields, stream, ',');
    read.add({action == "allocate",
              static_cast<std::uint32_t>(std::stoul(slot)),
              static_cast<std::uint32_t>(std::stoul(stream)),
              std::stoull(size)});
  }
  return read;
}

}  // namespace peers
