// The calling thread's device.
#include <rmm/cuda_device.hpp>

#include <small_rmm/try.hpp>

RMM_NAMESPACE_BEGIN

cuda_device_id get_current_cuda_device()
{
  int device{};
  small_rmm::check(cudaGetDevice(&device));
  return cuda_device_id{device};
}

int get_num_cuda_devices()
{
  int count{};
  small_rmm::check(cudaGetDeviceCount(&count));
  return count;
}

std::pair<std::size_t, std::size_t> available_device_memory()
{
  std::size_t free{};
  std::size_t total{};
  small_rmm::check(cudaMemGetInfo(&free, &total));
  return {free, total};
}

cuda_set_device_raii::cuda_set_device_raii(cuda_device_id dev_id)
  : needs_reset_{dev_id.value() >= 0 && dev_id != old_device_}
{
  if (needs_reset_) { small_rmm::check(cudaSetDevice(dev_id.value())); }
}

cuda_set_device_raii::~cuda_set_device_raii() noexcept
{
  if (needs_reset_) { cudaSetDevice(old_device_.value()); }
}

RMM_NAMESPACE_END
