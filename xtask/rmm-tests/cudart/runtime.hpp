// What all functions of the stand-in for the CUDA runtime share: the calling thread's device, its
// last error, and the conversion of the driver's status codes.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace stand_in {

/// Returns a driver's status as the runtime's, which has the same values, and keeps a failure as
/// the calling thread's last error. `cudaErrorNotReady` is an answer, not an error.
cudaError_t record(CUresult code) noexcept;

/// As above, for an error that the runtime finds itself.
cudaError_t record(cudaError_t code) noexcept;

/// Starts the driver, on the first call of the process.
CUresult start() noexcept;

/// Makes a context current to the calling thread, if there is none: the primary context of the
/// thread's device (device 0 before the first `cudaSetDevice`).
CUresult enter() noexcept;

/// Starts the driver and makes a context current, then calls `f`.
template <class F>
cudaError_t in_context(F f) noexcept
{
  if (auto const code = enter(); code != CUDA_SUCCESS) { return record(code); }
  return record(f());
}

/// Starts the driver, then calls `f`.
template <class F>
cudaError_t started(F f) noexcept
{
  if (auto const code = start(); code != CUDA_SUCCESS) { return record(code); }
  return record(f());
}

inline CUdeviceptr address(void const* pointer) noexcept
{
  return reinterpret_cast<CUdeviceptr>(pointer);
}

inline CUmemLocation location(cudaMemLocation place) noexcept
{
  CUmemLocation out{};
  out.type = static_cast<CUmemLocationType>(place.type);
  out.id   = place.id;
  return out;
}

}  // namespace stand_in
