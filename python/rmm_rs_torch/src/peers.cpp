// The functions of the allocator for copies between devices.
#include "allocator.hpp"

#include <c10/cuda/CUDAGuard.h>

namespace rmm_rs_torch {

void allocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer)
{
  c10::cuda::CUDAGuard const guard{device};
  // For virtual memory and pools of the driver, which the runtime's call leaves out. Private pools
  // are over the same memory.
  auto const memory = clients_.memory_of(peer);
  check(engine->rmm_rs_resource_grant_access(memory.get(), device));
  auto const code = cudaDeviceEnablePeerAccess(peer, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    // It is the thread's last error, too, which a later check would find.
    (void)cudaGetLastError();
    return;
  }
  C10_CUDA_CHECK(code);
}

cudaError_t allocator::memcpyAsync(void* to, int to_device, void const* from, int from_device,
                                   std::size_t bytes, cudaStream_t stream, bool p2p_enabled)
{
  if (p2p_enabled || to_device == from_device) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  // Works for memory of every kind.
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
}

}  // namespace rmm_rs_torch
