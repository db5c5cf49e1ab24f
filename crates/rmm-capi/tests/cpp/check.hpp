// The few lines of a test framework that these programs need. A program prints the number of its
// tests, and what failed with its place; it exits with 1 if anything did.
#pragma once

#include <rmm_rs.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace check {

inline std::atomic<int> failures{0};

inline void failed(char const* file, int line, std::string const& what)
{
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  failures.fetch_add(1);
}

struct test {
  char const* name;
  void (*run)();
};

inline std::vector<test>& tests()
{
  static std::vector<test> all;
  return all;
}

struct registered {
  registered(char const* name, void (*run)()) { tests().push_back({name, run}); }
};

inline int run_all()
{
  for (auto const& each : tests()) {
    auto const before = failures.load();
    try {
      each.run();
    } catch (std::exception const& error) {
      failed(each.name, 0, std::string{"unexpected exception: "} + error.what());
    } catch (...) {
      failed(each.name, 0, "unexpected exception");
    }
    if (failures.load() != before) { std::fprintf(stderr, "FAILED: %s\n", each.name); }
  }
  std::printf("%zu tests, %d failures\n", tests().size(), failures.load());
  return failures.load() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

template <class Exception, class Act>
void throws(char const* file, int line, char const* text, char const* part, Act act)
{
  try {
    act();
  } catch (Exception const& error) {
    std::string const what{error.what()};
    if (what.find(part) == std::string::npos) {
      failed(file, line, std::string{text} + " said \"" + what + "\", without \"" + part + "\"");
    }
    return;
  } catch (std::exception const& error) {
    failed(file, line, std::string{text} + " threw something else: " + error.what());
    return;
  }
  failed(file, line, std::string{text} + " threw nothing");
}

}  // namespace check

#define TEST(name)                                           \
  static void name();                                        \
  static check::registered const name##_registered{#name, name}; \
  static void name()

#define CHECK(condition) \
  ((condition) ? (void)0 : check::failed(__FILE__, __LINE__, "false: " #condition))

// The expression throws the exception, whose text has the part.
#define THROWS(exception, part, ...)                                                       \
  check::throws<exception>(__FILE__, __LINE__, #__VA_ARGS__, part, [&] { (void)(__VA_ARGS__); })

inline cuda::stream_ref const legacy{cudaStream_t{nullptr}};
inline constexpr std::size_t MiB = std::size_t{1} << 20;
