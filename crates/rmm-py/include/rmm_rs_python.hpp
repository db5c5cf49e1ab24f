// The C++ interface of rmm-rs (rmm_rs.hpp) out of the Python package `rmm_rs`, for extension modules that link to no
// library of it:
//
//     if (!rmm_rs::load_python_table()) { return nullptr; }        // once, in the module's init: an exception is set
//     auto pool = rmm_rs::device_resource{rmm_rs_python_resource(rmm_rs::python_table, object)};
//
// Every function of C that rmm_rs.hpp names is found here first, in its own namespace, as an object that calls the
// table of the capsule `rmm_rs._rmm._C_API`. So there is one engine in the process, and nothing to link.
#ifndef RMM_RS_PYTHON_HPP
#define RMM_RS_PYTHON_HPP

#ifdef RMM_RS_HPP
#error "rmm_rs_python.hpp comes before rmm_rs.hpp, which it includes"
#endif

#include "rmm_rs_python.h"

// Types of this header are not those of objects that link to librmm_rs.so, which is another copy of the engine.
#define RMM_RS_NAMESPACE v1_python

namespace rmm_rs {
inline namespace RMM_RS_NAMESPACE {

/// The package's functions. Null until load_python_table; then it stays.
inline rmm_rs_python_table const* python_table = nullptr;

/// Imports the package, and takes its functions. False, with a Python exception, if there is none or it is too old. The
/// thread is attached to the interpreter.
inline bool load_python_table() noexcept
{
  python_table = rmm_rs_python_import();
  return python_table != nullptr;
}

namespace detail {

/// A function of the table. It is called as the C function of its name is, and its address is itself.
template <auto Member>
struct from_python {
  template <class... Arguments>
  auto operator()(Arguments... arguments) const
  {
    return (python_table->*Member)(arguments...);
  }
  constexpr from_python operator&() const noexcept { return {}; }
};

}  // namespace detail

#define RMM_RS_PYTHON_FUNCTION(name) \
  inline constexpr detail::from_python<&rmm_rs_python_table::name> name{};
RMM_RS_PYTHON_FUNCTIONS(RMM_RS_PYTHON_FUNCTION)
#undef RMM_RS_PYTHON_FUNCTION

}  // inline namespace RMM_RS_NAMESPACE
}  // namespace rmm_rs

#include <rmm_rs.hpp>

#endif  // RMM_RS_PYTHON_HPP
