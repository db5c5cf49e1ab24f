// Makes a fixed list of calls through RMM's logging adaptor over its pool, and leaves the log: `peer-call-log FILE`. The same calls through
// ours are in ../src/call_log/program.rs; `call-log compare` says whether the logs are the same.
#include <cuda_runtime.h>
#include <rmm/error.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/logging_resource_adaptor.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>

namespace {

constexpr std::size_t alignment = 256;

void check(cudaError_t status)
{
  if (status != cudaSuccess) { throw std::runtime_error{cudaGetErrorString(status)}; }
}

cudaStream_t new_stream()
{
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// A thread of its own, which has ended on return.
template <typename Calls>
void on_a_thread(Calls calls)
{
  std::thread{calls}.join();
}

void log_to(char const* path)
{
  constexpr std::array<std::size_t, 10> sizes{0, 1, 255, 256, 257, 1000, 4096, 0, 1 << 20, (1 << 20) + 1};
  std::array<cudaStream_t, 4> const streams{cudaStreamLegacy, cudaStreamPerThread, new_stream(), new_stream()};
  rmm::mr::pool_memory_resource pool{rmm::mr::cuda_memory_resource{}, 1 << 20, 64 << 20};
  rmm::mr::logging_resource_adaptor logged{pool, path};
  auto allocate = [&](cudaStream_t stream, std::size_t size) { return logged.allocate(cuda::stream_ref{stream}, size, alignment); };
  auto free = [&](cudaStream_t stream, void* block, std::size_t size) { logged.deallocate(cuda::stream_ref{stream}, block, size, alignment); };
  auto refused = [&](auto call) {
    try {
      (void)call();
    } catch (rmm::out_of_memory const&) {
      return;
    }
    throw std::runtime_error{"more was handed out than the pool may have"};
  };

  // Every size, on every stream in turn.
  std::array<void*, sizes.size()> blocks{};
  for (std::size_t place = 0; place < sizes.size(); ++place) {
    blocks[place] = allocate(streams[place % streams.size()], sizes[place]);
  }

  // More than the pool may have.
  refused([&] { return allocate(streams[2], std::size_t{1} << 40); });
  refused([&] { return logged.allocate_sync((std::size_t{64} << 20) + 1, alignment); });

  // Every second block, the last one first.
  for (std::size_t place = sizes.size(); place-- > 0;) {
    if (place % 2 == 1) { free(streams[place % streams.size()], blocks[place], sizes[place]); }
  }

  // No stream.
  auto* const sync = logged.allocate_sync(300, alignment);
  logged.deallocate_sync(sync, 300, alignment);

  // Other threads: one allocates, another frees that on another stream, and a block of the first thread's.
  void* handed = nullptr;
  on_a_thread([&] { handed = allocate(streams[3], 5000); });
  check(cudaStreamSynchronize(streams[3]));
  on_a_thread([&] {
    free(streams[2], handed, 5000);
    free(streams[2], blocks[2], sizes[2]);
  });

  // The rest, in order.
  for (std::size_t place = 0; place < sizes.size(); ++place) {
    if (place % 2 == 0 && place != 2) { free(streams[place % streams.size()], blocks[place], sizes[place]); }
  }
  logged.flush();
  check(cudaStreamDestroy(streams[2]));
  check(cudaStreamDestroy(streams[3]));
}

}  // namespace

int main(int count, char** given)
{
  if (count != 2) {
    std::fputs("usage: peer-call-log FILE\n", stderr);
    return 2;
  }
  try {
    log_to(given[1]);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "peer-call-log: %s\n", error.what());
    return 1;
  }
}
