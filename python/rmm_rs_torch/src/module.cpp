// The extension module of one version of PyTorch: `_torch_2_14` and its like. It is loaded after
// PyTorch, whose libraries it names and does not look for.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "allocator.hpp"
#include "pools.hpp"
#include "sleep_module.hpp"

#include <c10/cuda/CUDAAllocatorConfig.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <string>

namespace {

using namespace rmm_rs_torch;

/// Takes the functions of the package `rmm_rs`. False, with an exception of Python's, on failure.
bool load_engine()
{
  if (engine == nullptr) { engine = rmm_rs_python_import(); }
  return engine != nullptr;
}

/// Runs a function, and turns what it throws into an exception of Python's.
template <class F>
PyObject* translated(F call)
{
  try {
    return call();
  } catch (c10::Error const& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (std::exception const& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

/// `has_pool(resource)`: whether the resource is a pool, or one is below it.
PyObject* has_pool(PyObject*, PyObject* object)
{
  if (!load_engine()) { return nullptr; }
  auto const* const handle = rmm_rs_python_resource(engine, object);
  if (handle == nullptr) { return nullptr; }
  return translated([&] { return PyBool_FromLong(pool_below(resource{handle}) ? 1 : 0); });
}

/// `install(pool, device)`: PyTorch allocates by rmm-rs from now on. `pool` is a resource, which
/// serves that device; a specification, of which each device gets its own; or None.
PyObject* install_allocator(PyObject*, PyObject* arguments)
{
  PyObject* pool = nullptr;
  int device     = 0;
  if (PyArg_ParseTuple(arguments, "Oi", &pool, &device) == 0 || !load_engine()) { return nullptr; }
  resource_of_device make = [](c10::DeviceIndex) { return resource{}; };
  if (PyUnicode_Check(pool) != 0) {
    Py_ssize_t length      = 0;
    auto const* const text = PyUnicode_AsUTF8AndSize(pool, &length);
    if (text == nullptr) { return nullptr; }
    make = [spec = std::string(text, static_cast<std::size_t>(length))](c10::DeviceIndex) {
      rmm_rs_resource const* made = nullptr;
      check(engine->rmm_rs_resource_from_spec(spec.c_str(), &made));
      return resource{made};
    };
  } else if (pool != Py_None) {
    auto const* const handle = rmm_rs_python_resource(engine, pool);
    if (handle == nullptr) { return nullptr; }
    make = [given = resource{handle}, device](c10::DeviceIndex of) {
      return of == device ? given : resource{};
    };
  }
  return translated([&]() -> PyObject* {
    // PyTorch reads its settings once, and compares a backend in them with the allocator's name.
    (void)c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig::per_process_memory_fraction();
    auto& installed = install(std::move(make));
    // It is never destroyed.
    std::shared_ptr<cuda_allocator> const shared{&installed, [](cuda_allocator*) {}};
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(shared);
    // torch.accelerator asks here. Native has a priority of its own from 2.14 on.
    c10::SetAllocator(c10::DeviceType::CUDA, &installed, std::numeric_limits<std::uint8_t>::max());
    TORCH_CHECK(c10::GetAllocator(c10::DeviceType::CUDA) == &installed,
                "rmm-rs: PyTorch keeps another allocator for torch.accelerator");
    Py_RETURN_NONE;
  });
}

PyMethodDef methods[] = {
  {"install", &install_allocator, METH_VARARGS, "Makes PyTorch allocate by rmm-rs."},
  {"has_pool", &has_pool, METH_O, "Whether the resource is a pool, or one is below it."},
  {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
  PyModuleDef_HEAD_INIT,
  RMM_RS_TORCH_NAME,
  nullptr,
  -1,
  methods,
  nullptr,
  nullptr,
  nullptr,
  nullptr,
};

}  // namespace

#define CONCATENATED(a, b) a##b
#define INIT_OF(name) CONCATENATED(PyInit_, name)

PyMODINIT_FUNC INIT_OF(RMM_RS_TORCH_MODULE)(void)
{
  auto* const module = PyModule_Create(&definition);
  if (module == nullptr) { return nullptr; }
  auto const version = std::to_string(TORCH_VERSION_MAJOR) + "." +
                       std::to_string(TORCH_VERSION_MINOR);
  if (PyModule_AddStringConstant(module, "TORCH_VERSION", version.c_str()) != 0 ||
      !rmm_rs_torch::add_sleep_functions(module)) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
