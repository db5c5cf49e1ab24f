// What PyTorch's CUDAPluggableAllocator does: it loads functions by name, and expects an
// exception when memory is out.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

using stream = void*;
#define LOAD(name, type) auto const name = reinterpret_cast<type>(dlsym(library, "rmm_rs_torch_" #name))

int main(int count, char** arguments) {
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) { std::puts(dlerror()); return 2; }
  LOAD(allocate, void* (*)(std::ptrdiff_t, int, stream));
  LOAD(deallocate, void (*)(void*, std::ptrdiff_t, int, stream));
  LOAD(record_stream, void (*)(void*, stream));
  LOAD(reset, void (*)());
  LOAD(set_memory_fraction, void (*)(double, int));
  auto const stream_new  = reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "rmm_rs_stream_new"));
  auto const handle_of   = reinterpret_cast<stream (*)(void*)>(dlsym(library, "rmm_rs_stream_handle"));
  // The software driver, which the library has opened by the same name.
  void* const driver     = dlopen(std::getenv("RMM_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  if (!driver) { std::puts(dlerror()); return 12; }
  auto const launch      = reinterpret_cast<int (*)(stream, void (*)(void*), void*)>(dlsym(driver, "cuLaunchHostFunc"));
  auto const synchronize = reinterpret_cast<int (*)(stream)>(dlsym(driver, "cuStreamSynchronize"));
  if (!allocate || !deallocate || !record_stream || !reset || !set_memory_fraction) return 3;
  if (dlsym(library, "rmm_rs_throw_bad_alloc")) return 4;  // not for others

  // A second argument: the resource cannot be made, at no allocation.
  for (int round = 0; count > 2 && round < 2; round++) try {
      allocate(1 << 20, 0, nullptr);
      return 11;
    } catch (std::bad_alloc const& error) {
      std::printf("%.15s\n", error.what());
    }
  if (count > 2) return 0;

  void* streams[2];
  for (auto& s : streams)
    if (stream_new(0, &s)) return 5;
  stream const computes = handle_of(streams[0]), copies = handle_of(streams[1]);

  if (allocate(0, 0, computes)) return 6;
  void* const plain = allocate(1 << 20, 0, computes);
  deallocate(plain, 1 << 20, 0, computes);
  if (allocate(1 << 20, 0, computes) != plain) return 7;  // at once, in the order of the stream
  // The recorded stream is busy until the gate opens.
  std::atomic<bool> is_open{false};
  auto const wait = [](void* gate) {
    while (!*static_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
  };
  if (launch(copies, wait, &is_open)) return 13;
  record_stream(plain, copies);
  record_stream(plain, copies);
  deallocate(plain, 1 << 20, 0, computes);
  void* const other = allocate(1 << 20, 0, computes);
  std::printf("a recorded block is %s\n", other == plain ? "reused at once" : "not reused at once");
  is_open = true;
  if (synchronize(copies)) return 14;
  if (allocate(1 << 20, 0, computes) != plain) return 15;  // when the recorded stream is done
  deallocate(plain, 1 << 20, 0, computes);
  deallocate(other, 1 << 20, 0, computes);

  try {
    allocate(std::ptrdiff_t{1} << 60, 0, computes);
    return 8;
  } catch (std::bad_alloc const& error) {
    std::printf("%.45s\n", error.what());
  }
  set_memory_fraction(0.5, 0);
  try {
    allocate(std::ptrdiff_t{1} << 40, 0, computes);
    return 9;
  } catch (std::bad_alloc const& error) {
    std::printf("%s\n", std::strstr(error.what(), "memory fraction") ? "the memory fraction holds" : error.what());
  }
  // A request that is beyond the fraction refuses none of another thread that is within it.
  std::atomic<bool> over{false};
  std::atomic<int> refused{0};
  std::thread greedy{[&] {
    while (!over) try {
        allocate(std::ptrdiff_t{1} << 40, 0, copies);
      } catch (std::bad_alloc const&) {
        refused++;
      }
  }};
  for (int round = 0; round < 4000 || refused < 2000; round++)
    deallocate(allocate(1 << 24, 0, computes), 1 << 24, 0, computes);
  over = true;
  greedy.join();
  try {
    allocate(1, 77, computes);
    return 10;
  } catch (std::bad_alloc const& error) {
    std::printf("%.15s\n", error.what());
  }
  deallocate(nullptr, 0, 0, computes);
  reset();
  std::puts("done");
  return dlclose(library);
}
