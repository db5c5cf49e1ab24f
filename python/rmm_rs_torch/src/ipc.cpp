// The functions of the allocator for memory of other processes: `torch.multiprocessing` calls them.
#include "allocator.hpp"

#include <c10/cuda/CUDAGuard.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace rmm_rs_torch {

namespace {

// Native puts a version and a kind before the runtime's handle, and takes the handle alone, too.
constexpr std::size_t prefix = 2;
constexpr char of_cuda_malloc = 'c';

/// The runtime's handle in the text of a sender. Throws if there is none.
std::string handle_in(std::string const& text)
{
  constexpr auto size = sizeof(cudaIpcMemHandle_t);
  if (text.size() == size) { return text; }
  TORCH_CHECK(text.size() == prefix + size && text[1] == of_cuda_malloc,
              "rmm-rs: the sender's memory is not from cudaMalloc: start it without "
              "expandable_segments");
  return text.substr(prefix);
}

/// Memory of other processes that is open here, by handle and device: the runtime opens it once.
class opened_memory {
 public:
  std::shared_ptr<void> open(c10::DeviceIndex device, std::string const& handle)
  {
    std::lock_guard const lock{mutex_};
    auto& place = open_[{device, handle}];
    if (auto found = place.lock(); found != nullptr) { return found; }
    c10::cuda::CUDAGuard const guard{device};
    cudaIpcMemHandle_t native{};
    std::memcpy(&native, handle.data(), sizeof native);
    void* base = nullptr;
    C10_CUDA_CHECK(cudaIpcOpenMemHandle(&base, native, cudaIpcMemLazyEnablePeerAccess));
    std::shared_ptr<void> opened{base, [device](void* pointer) { close(device, pointer); }};
    place = opened;
    return opened;
  }

 private:
  static void close(c10::DeviceIndex device, void* base) noexcept
  {
    try {
      c10::cuda::CUDAGuard const guard{device};
      // At the end of the process the runtime may be gone.
      (void)cudaIpcCloseMemHandle(base);
    } catch (c10::Error const&) {
      return;
    }
  }

  // Held while memory is opened, so that two threads do not open the same.
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, std::string>, std::weak_ptr<void>> open_;
};

}  // namespace

c10::cuda::CUDACachingAllocator::ShareableHandle allocator::shareIpcHandle(void* pointer)
{
  std::size_t bytes = 0;
  auto* const base  = static_cast<char*>(getBaseAllocation(pointer, &bytes));
  cudaIpcMemHandle_t handle{};
  auto const code = cudaIpcGetMemHandle(&handle, base);
  if (code != cudaSuccess) {
    // It is the thread's last error, too, which a later check would find.
    (void)cudaGetLastError();
    TORCH_CHECK(false, "rmm-rs: this memory cannot be shared with other processes: ",
                cudaGetErrorString(code), ". Memory of cudaMalloc can: install(\"pool(cuda)\")");
  }
  rmm_rs_client_block block{};
  block.size = sizeof block;
  check(engine->rmm_rs_client_find(pointer, &block));
  auto const device = static_cast<c10::DeviceIndex>(block.device);
  sleeper_.note_exported(device, pools_.id_of(device, block.pool));
  return {static_cast<char*>(pointer) - base,
          std::string{reinterpret_cast<char const*>(&handle), sizeof handle}};
}

std::shared_ptr<void> allocator::getIpcDevPtr(std::string text)
{
  // Never destroyed, as the tensors in it.
  static auto* const opened = new opened_memory{};
  c10::DeviceIndex device   = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return opened->open(device, handle_in(text));
}

}  // namespace rmm_rs_torch
