// The kernels of a program.
#pragma once

#include <cuda.h>

namespace stand_in {

/// The driver's function for a kernel, by the address of its function on the host, in the current
/// context.
CUresult kernel(void const* host_function, CUfunction* out) noexcept;

}  // namespace stand_in
