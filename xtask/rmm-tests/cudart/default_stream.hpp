// What the files have in common that are compiled twice.
//
// In their functions a null handle means the default stream. Each function has two names: the plain
// one, for which that is the legacy stream, and one with `_ptsz` or `_ptds`, which the header puts
// in its place in programs with a default stream for each thread. So the second time
// PER_THREAD_DEFAULT_STREAM is defined.
#pragma once

// Before the definition: the driver's functions keep their plain names.
#include <cuda.h>

#ifdef PER_THREAD_DEFAULT_STREAM
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#endif

#include "runtime.hpp"

namespace {

/// The stream that a handle means.
inline CUstream meant(cudaStream_t stream) noexcept
{
#ifdef PER_THREAD_DEFAULT_STREAM
  return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
#else
  return stream;
#endif
}

}  // namespace
