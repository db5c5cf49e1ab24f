// The functions of the extension module for memory that sleeps.
#pragma once

#include <Python.h>

namespace rmm_rs_torch {

/// Adds them to the module. False, with an exception of Python's, on failure.
bool add_sleep_functions(PyObject* module);

}  // namespace rmm_rs_torch
