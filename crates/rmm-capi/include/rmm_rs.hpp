// The C++ interface of rmm-rs: memory resources of CCCL's concept over the C interface in rmm_rs.h,
// for RMM, libcudf and every other user of cuda::mr. Header-only, C++20. docs/cpp.md shows
// programs.
//
// Rules that hold for everything here:
//
// - An object of basic_resource is one counted reference, one pointer wide: a copy shares the
//   resource. The resource ends with its last reference and the last resource above it.
// - A function that fails throws one of the exceptions below, which are RMM's where its headers are
//   found and derive from the standard ones elsewhere. What is noexcept never throws.
// - An object that was moved from is null: it can be destroyed, assigned, compared, copied and
//   tested. To allocate from it throws invalid_argument, to free does nothing.
// - Any function may be called on any thread. From the time the process begins to exit they all
//   succeed and do nothing: an allocation is null, and so is a resource that is made.
// - Sizes are in bytes. A pointer may be freed through an equal resource only, with the size and
//   the alignment of the allocation.
#ifndef RMM_RS_HPP
#define RMM_RS_HPP

#include "rmm_rs.h"

#include "rmm_rs/effort.hpp"
#include "rmm_rs/errors.hpp"
#include "rmm_rs/options.hpp"
#include "rmm_rs/pressure.hpp"
#include "rmm_rs/registry.hpp"
#include "rmm_rs/resource.hpp"
#include "rmm_rs/stream.hpp"
#include "rmm_rs/upstream.hpp"
#include "rmm_rs/watch.hpp"

#endif  // RMM_RS_HPP
