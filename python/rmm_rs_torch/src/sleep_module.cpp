// What `rmm_rs.torch.Sleeper` calls. A pool is named by its device and the two numbers of its id.
#define PY_SSIZE_T_CLEAN
#include "sleep_module.hpp"

#include "allocator.hpp"

#include <cstdint>
#include <exception>

namespace rmm_rs_torch {

namespace {

/// Other threads of Python run while this exists.
class without_interpreter {
 public:
  without_interpreter() : state_{PyEval_SaveThread()} {}
  ~without_interpreter() { PyEval_RestoreThread(state_); }
  without_interpreter(without_interpreter const&) = delete;

 private:
  PyThreadState* state_;
};

void set_out_of_memory(char const* text)
{
  auto* const torch = PyImport_ImportModule("torch");
  if (torch == nullptr) { return; }
  auto* const kind = PyObject_GetAttrString(torch, "OutOfMemoryError");
  Py_DECREF(torch);
  if (kind == nullptr) { return; }
  PyErr_SetString(kind, text);
  Py_DECREF(kind);
}

/// Runs a function without the interpreter's lock, and turns what it throws into an exception of
/// Python's. False if there is one.
template <class F>
bool run(F call)
{
  try {
    without_interpreter const released;
    call(installed_allocator().sleep());
    return true;
  } catch (c10::OutOfMemoryError const& error) {
    set_out_of_memory(error.what_without_backtrace());
  } catch (c10::Error const& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (std::exception const& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return false;
}

/// The name of a pool in arguments.
struct pool_name {
  int device;
  unsigned long long first;
  unsigned long long second;

  [[nodiscard]] c10::DeviceIndex index() const { return static_cast<c10::DeviceIndex>(device); }
  [[nodiscard]] c10::MempoolId_t id() const { return {first, second}; }
};

bool parse(PyObject* arguments, pool_name& out)
{
  return PyArg_ParseTuple(arguments, "i(KK)", &out.device, &out.first, &out.second) != 0;
}

PyObject* id_object(c10::MempoolId_t id)
{
  return Py_BuildValue("(KK)", static_cast<unsigned long long>(id.first),
                       static_cast<unsigned long long>(id.second));
}

PyObject* none()
{
  Py_INCREF(Py_None);
  return Py_None;
}

PyObject* make_tag(PyObject*, PyObject* arguments)
{
  int device = 0;
  c10::MempoolId_t id;
  if (PyArg_ParseTuple(arguments, "i", &device) == 0) { return nullptr; }
  auto const index = static_cast<c10::DeviceIndex>(device);
  return run([&](sleeper& all) { id = all.make_tag(index); }) ? id_object(id) : nullptr;
}

PyObject* begin_region(PyObject*, PyObject* arguments)
{
  pool_name name{};
  c10::MempoolId_t region;
  if (!parse(arguments, name)) { return nullptr; }
  return run([&](sleeper& all) { region = all.begin_region(name.index(), name.id()); })
           ? id_object(region)
           : nullptr;
}

PyObject* end_region(PyObject*, PyObject* arguments)
{
  pool_name name{};
  if (!parse(arguments, name)) { return nullptr; }
  return run([&](sleeper& all) { all.end_region(name.index(), name.id()); }) ? none() : nullptr;
}

PyObject* graph_pools(PyObject*, PyObject*)
{
  std::vector<shared_pool> pools;
  if (!run([&](sleeper& all) { pools = all.of_graphs(); })) { return nullptr; }
  auto* const list = PyList_New(0);
  if (list == nullptr) { return nullptr; }
  for (auto const& pool : pools) {
    auto* const entry = Py_BuildValue("(iN)", static_cast<int>(pool->device()),
                                      id_object(pool->id()));
    auto const status = entry == nullptr ? -1 : PyList_Append(list, entry);
    Py_XDECREF(entry);
    if (status != 0) {
      Py_DECREF(list);
      return nullptr;
    }
  }
  return list;
}

PyObject* check_may_sleep(PyObject*, PyObject* arguments)
{
  pool_name name{};
  if (!parse(arguments, name)) { return nullptr; }
  return run([&](sleeper& all) { all.check_may_sleep(name.index(), name.id()); }) ? none()
                                                                                 : nullptr;
}

PyObject* sleep(PyObject*, PyObject* arguments)
{
  pool_name name{};
  int to_host      = 0;
  PyObject* memory = nullptr;
  if (PyArg_ParseTuple(arguments, "i(KK)pO", &name.device, &name.first, &name.second, &to_host,
                       &memory) == 0) {
    return nullptr;
  }
  resource host_memory;
  if (memory != Py_None) {
    // Without an allocator there are no functions of `rmm_rs`.
    if (!run([](sleeper&) {})) { return nullptr; }
    auto const* const handle = rmm_rs_python_resource(engine, memory);
    if (handle == nullptr) { return nullptr; }
    host_memory = resource{handle};
  }
  std::uint64_t bytes = 0;
  bool const is_done  = run([&](sleeper& all) {
    bytes = all.sleep(name.index(), name.id(), to_host != 0, host_memory);
  });
  return is_done ? PyLong_FromUnsignedLongLong(bytes) : nullptr;
}

PyObject* wake(PyObject*, PyObject* arguments)
{
  pool_name name{};
  std::uint64_t bytes = 0;
  if (!parse(arguments, name)) { return nullptr; }
  return run([&](sleeper& all) { bytes = all.wake(name.index(), name.id()); })
           ? PyLong_FromUnsignedLongLong(bytes)
           : nullptr;
}

PyObject* is_asleep(PyObject*, PyObject* arguments)
{
  pool_name name{};
  bool answer = false;
  if (!parse(arguments, name)) { return nullptr; }
  return run([&](sleeper& all) { answer = all.is_asleep(name.index(), name.id()); })
           ? PyBool_FromLong(answer ? 1 : 0)
           : nullptr;
}

PyObject* usage(PyObject*, PyObject* arguments)
{
  pool_name name{};
  sleeper::usage found{};
  if (!parse(arguments, name)) { return nullptr; }
  if (!run([&](sleeper& all) { found = all.usage_of(name.index(), name.id()); })) {
    return nullptr;
  }
  return Py_BuildValue("(KKK)", static_cast<unsigned long long>(found.live),
                       static_cast<unsigned long long>(found.reserved),
                       static_cast<unsigned long long>(found.asleep));
}

PyObject* trim(PyObject*, PyObject* arguments)
{
  pool_name name{};
  if (!parse(arguments, name)) { return nullptr; }
  return run([&](sleeper& all) { all.trim(name.index(), name.id()); }) ? none() : nullptr;
}

PyObject* release_pool(PyObject*, PyObject* arguments)
{
  pool_name name{};
  if (!parse(arguments, name)) { return nullptr; }
  return run([&](sleeper&) { installed_allocator().releasePool(name.index(), name.id()); })
           ? none()
           : nullptr;
}

PyObject* read_asleep(PyObject*, PyObject* arguments)
{
  unsigned long long block = 0;
  unsigned long long from  = 0;
  Py_ssize_t bytes         = 0;
  unsigned long long out   = 0;
  if (PyArg_ParseTuple(arguments, "KKnK", &block, &from, &bytes, &out) == 0) { return nullptr; }
  bool is_kept = false;
  bool done    = run([&](sleeper& all) {
    is_kept = all.read(reinterpret_cast<void const*>(block), reinterpret_cast<void const*>(from),
                       static_cast<std::size_t>(bytes), reinterpret_cast<void*>(out));
  });
  return done ? PyBool_FromLong(is_kept ? 1 : 0) : nullptr;
}

PyMethodDef methods[] = {
  {"make_tag", &make_tag, METH_VARARGS, "Makes a pool for a tag: (device) -> id."},
  {"begin_region", &begin_region, METH_VARARGS, "Routes this thread to a pool: (device, id)."},
  {"end_region", &end_region, METH_VARARGS, "Ends a route: (device, what begin_region returned)."},
  {"graph_pools", &graph_pools, METH_NOARGS, "The pools of graphs: a list of (device, id)."},
  {"check_may_sleep", &check_may_sleep, METH_VARARGS, "Raises if it may not: (device, id)."},
  {"sleep", &sleep, METH_VARARGS, "(device, id, to_host, host_memory) -> bytes."},
  {"wake", &wake, METH_VARARGS, "(device, id) -> bytes."},
  {"is_asleep", &is_asleep, METH_VARARGS, "(device, id) -> bool."},
  {"usage", &usage, METH_VARARGS, "(device, id) -> bytes live, reserved, asleep."},
  {"trim", &trim, METH_VARARGS, "Returns what a pool does not use: (device, id)."},
  {"release_pool", &release_pool, METH_VARARGS, "Ends the use of a tag's pool: (device, id)."},
  {"read_asleep", &read_asleep, METH_VARARGS, "(block, from, bytes, out) -> whether it was kept."},
  {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool add_sleep_functions(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace rmm_rs_torch
