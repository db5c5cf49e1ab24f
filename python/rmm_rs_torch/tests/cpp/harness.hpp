// Tests that call PyTorch's native allocator and ours through the base class, on the software
// driver.
#pragma once

#include "allocator.hpp"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <functional>
#include <future>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace harness {

using rmm_rs_torch::cuda_allocator;
namespace caching = c10::CachingDeviceAllocator;

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

/// A failed assertion.
struct failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The tests by name.
inline std::map<std::string, std::function<void()>>& tests()
{
  static std::map<std::string, std::function<void()>> all;
  return all;
}

struct registered {
  registered(char const* name, std::function<void()> test) { tests()[name] = std::move(test); }
};

#define TEST(name)                                               \
  static void name();                                            \
  static ::harness::registered const registered_##name{#name, &name}; \
  static void name()

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      throw ::harness::failure{std::string{__FILE__} + ":" + std::to_string(__LINE__) + ": " \
                               #condition};                                                  \
    }                                                                                        \
  } while (false)

template <class A, class B>
void check_equal(A const& a, B const& b, std::string const& what)
{
  if (a == b) { return; }
  std::ostringstream text;
  text << what << ": " << a << " is not " << b;
  throw failure{text.str()};
}

/// Whether a call throws an exception of that type; its text otherwise.
template <class Error, class F>
std::string text_of_error(F call)
{
  try {
    call();
  } catch (Error const& error) {
    return error.what_without_backtrace();
  }
  throw failure{"nothing was thrown"};
}

/// PyTorch's own allocator.
cuda_allocator& native();

/// Ours, over a pool over the driver's memory, with a maximum of 256 MiB, or over what a
/// specification says, if that is the first call.
cuda_allocator& ours(char const* specification = "pool(cuda, max=256MiB)");

/// A tensor's memory, as PyTorch's libraries hold it.
using memory = c10::DataPtr;

/// Runs a function while a stream is the current one.
template <class F>
auto on(c10::cuda::CUDAStream stream, F call)
{
  c10::cuda::CUDAStreamGuard const guard{stream};
  return call();
}

/// Has the device write to the memory, in the order of a stream.
void use(memory const& block, std::size_t bytes, c10::cuda::CUDAStream stream);

void synchronize();

/// Takes the streams that are captured, as a graph's filter takes those of its own capture.
bool captured_streams(cudaStream_t stream);

/// Begins the capture of a stream, and says so to our allocator, as PyTorch does from 2.13 on.
void begin_capture(c10::cuda::CUDAStream stream,
                   cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal,
                   bool marks                 = true);

/// Ends it, and says so: the graph.
cudaGraph_t end_capture(c10::cuda::CUDAStream stream, bool marks = true);

/// The same for a graph that is not launched.
void end_capture_unused(c10::cuda::CUDAStream stream, bool marks = true);

/// Work on a stream that lasts for as long as the object exists.
class busy_stream {
 public:
  explicit busy_stream(c10::cuda::CUDAStream stream);
  ~busy_stream();
  busy_stream(busy_stream const&) = delete;

 private:
  std::promise<void> done_;
  std::future<void> is_done_{done_.get_future()};
};

/// Compares what PyTorch counts for tensors. `exact_active` compares peaks of `active`, too, which
/// depend on when events are queried.
void compare(caching::DeviceStats const& native,
             caching::DeviceStats const& ours,
             bool exact_active);

}  // namespace harness
