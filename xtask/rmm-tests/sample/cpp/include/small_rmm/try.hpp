// Status codes of the runtime as RMM's exceptions.
#pragma once

#include <rmm/error.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace small_rmm {

/// Throws `rmm::cuda_error` for a failure, and takes it from the thread's last error.
inline void check(cudaError_t code)
{
  if (code == cudaSuccess) { return; }
  cudaGetLastError();
  throw rmm::cuda_error{std::string{cudaGetErrorName(code)} + ": " + cudaGetErrorString(code)};
}

/// As `check`, for a request for memory: `rmm::out_of_memory` if there is none left, else
/// `rmm::bad_alloc`.
inline void check_allocation(cudaError_t code)
{
  if (code == cudaSuccess) { return; }
  cudaGetLastError();
  auto const text = std::string{cudaGetErrorName(code)} + ": " + cudaGetErrorString(code);
  if (code == cudaErrorMemoryAllocation) { throw rmm::out_of_memory{text}; }
  throw rmm::bad_alloc{text};
}

}  // namespace small_rmm
