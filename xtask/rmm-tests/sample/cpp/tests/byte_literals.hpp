// Sizes.
#pragma once

#include <cstddef>

namespace rmm::test {

constexpr std::size_t operator""_KiB(unsigned long long value) { return value << 10; }
constexpr std::size_t operator""_MiB(unsigned long long value) { return value << 20; }
constexpr std::size_t operator""_PiB(unsigned long long value) { return value << 50; }

}  // namespace rmm::test
