#include "harness.hpp"

#include <cstring>
#include <exception>

namespace c10::cuda::_internal {
// Exported, and in no header: PyTorch's hooks call it.
C10_CUDA_API void setHasPrimaryContext(bool (*function)(c10::DeviceIndex));
}  // namespace c10::cuda::_internal

namespace harness {

namespace {

// The table that the Python package has, out of librmm_rs.so.
#define FUNCTION(name) &::name,
rmm_rs_python_table const table{sizeof(rmm_rs_python_table), RMM_RS_PYTHON_FUNCTIONS(FUNCTION)};
#undef FUNCTION

/// Loads the driver and the engine.
void start()
{
  static bool const done = [] {
    rmm_rs_torch::engine = &table;
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
    C10_CUDA_CHECK(cudaFree(nullptr));
    return true;
  }();
  (void)done;
}

rmm_rs_torch::resource make(char const* specification)
{
  rmm_rs_resource const* made = nullptr;
  rmm_rs_torch::check(table.rmm_rs_resource_from_spec(specification, &made));
  return rmm_rs_torch::resource{made};
}

}  // namespace

cuda_allocator& native()
{
  static auto& found = []() -> cuda_allocator& {
    auto* const allocator = c10::cuda::CUDACachingAllocator::get();
    allocator->init(c10::cuda::device_count());
    return *allocator;
  }();
  return found;
}

cuda_allocator& ours(char const* specification)
{
  static auto& made = [specification]() -> cuda_allocator& {
    auto& allocator = rmm_rs_torch::install(
      [specification](c10::DeviceIndex) { return make(specification); });
    allocator.init(c10::cuda::device_count());
    return allocator;
  }();
  return made;
}

void use(memory const& block, std::size_t bytes, c10::cuda::CUDAStream stream)
{
  C10_CUDA_CHECK(cudaMemsetAsync(block.get(), 1, bytes, stream.stream()));
}

busy_stream::busy_stream(c10::cuda::CUDAStream stream)
{
  auto const wait = [](void* until) { static_cast<std::future<void>*>(until)->wait(); };
  C10_CUDA_CHECK(cudaLaunchHostFunc(stream.stream(), wait, &is_done_));
}

busy_stream::~busy_stream()
{
  done_.set_value();
  // The function refers to this object.
  synchronize();
}

void synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }

bool captured_streams(cudaStream_t stream)
{
  auto status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status == cudaStreamCaptureStatusActive;
}

void begin_capture(c10::cuda::CUDAStream stream, cudaStreamCaptureMode mode,
                   [[maybe_unused]] bool marks)
{
  C10_CUDA_CHECK(cudaStreamBeginCapture(stream.stream(), mode));
#if TORCH_VERSION_MINOR >= 13
  if (marks) { ours().markCaptureBegin(stream.device_index()); }
#endif
}

cudaGraph_t end_capture(c10::cuda::CUDAStream stream, [[maybe_unused]] bool marks)
{
  cudaGraph_t graph = nullptr;
  C10_CUDA_CHECK(cudaStreamEndCapture(stream.stream(), &graph));
#if TORCH_VERSION_MINOR >= 13
  if (marks) { ours().markCaptureEnd(stream.device_index()); }
#endif
  return graph;
}

void end_capture_unused(c10::cuda::CUDAStream stream, bool marks)
{
  C10_CUDA_CHECK(cudaGraphDestroy(end_capture(stream, marks)));
}

namespace {

void compare(caching::Stat const& native, caching::Stat const& ours, std::string const& what,
             bool with_peak)
{
  check_equal(ours.current, native.current, what + ".current");
  check_equal(ours.allocated, native.allocated, what + ".allocated");
  check_equal(ours.freed, native.freed, what + ".freed");
  if (with_peak) { check_equal(ours.peak, native.peak, what + ".peak"); }
}

void compare(caching::StatArray const& native, caching::StatArray const& ours,
             std::string const& what, bool with_peak = true)
{
  static char const* const names[] = {"all", "small", "large"};
  for (std::size_t i = 0; i < native.size(); ++i) {
    compare(native[i], ours[i], what + "." + names[i], with_peak);
  }
}

}  // namespace

void compare(caching::DeviceStats const& native, caching::DeviceStats const& ours,
             bool exact_active)
{
  compare(native.allocation, ours.allocation, "allocation");
  compare(native.allocated_bytes, ours.allocated_bytes, "allocated_bytes");
  compare(native.requested_bytes, ours.requested_bytes, "requested_bytes");
  compare(native.active, ours.active, "active", exact_active);
  compare(native.active_bytes, ours.active_bytes, "active_bytes", exact_active);
  check_equal(ours.num_ooms, native.num_ooms, "num_ooms");
  check_equal(ours.max_split_size, native.max_split_size, "max_split_size");
  check_equal(ours.oversize_allocations.current, native.oversize_allocations.current, "oversize");
}

}  // namespace harness

/// `PROGRAM --list`, or `PROGRAM NAME ...`; without names all tests run.
int main(int count, char** arguments)
{
  auto& all = harness::tests();
  if (count == 2 && std::strcmp(arguments[1], "--list") == 0) {
    for (auto const& [name, test] : all) { std::printf("%s\n", name.c_str()); }
    return 0;
  }
  harness::start();
  std::vector<std::string> names(arguments + 1, arguments + count);
  if (names.empty()) {
    for (auto const& [name, test] : all) { names.push_back(name); }
  }
  int failed = 0;
  for (auto const& name : names) {
    try {
      all.at(name)();
      std::printf("ok %s\n", name.c_str());
    } catch (c10::Error const& error) {
      std::printf("FAILED %s: %s\n", name.c_str(), error.what_without_backtrace());
      ++failed;
    } catch (std::exception const& error) {
      std::printf("FAILED %s: %s\n", name.c_str(), error.what());
      ++failed;
    }
    std::fflush(stdout);
  }
  return failed == 0 ? 0 : 1;
}
