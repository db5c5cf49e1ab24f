"""The table of C functions, and an extension module that uses it."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmm_rs
from rmm_rs import _rmm, mr
from rmm_rs.pylibrmm.stream import Stream

#: The headers of the package, for extension modules.
INCLUDE = Path(rmm_rs.__file__).parent / "include"
HEADER = INCLUDE / "rmm_rs_python.h"


def test_the_header_has_the_tables_functions() -> None:
    declared = re.findall(r"X\((rmm_rs_\w+)\)", HEADER.read_text())
    assert declared == _rmm._c_api_names()
    functions = re.findall(r"\b(rmm_rs_\w+)\(", (INCLUDE / "rmm_rs.h").read_text())
    # What PyTorch's functions leave by, which is C++.
    assert set(declared) == set(functions) - {"rmm_rs_throw_bad_alloc"}


def test_the_capsules_have_their_names() -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    capsule = _rmm._c_resource(pool)
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    assert is_valid(_rmm._C_API, b"rmm_rs._rmm.c_api_v1")
    assert is_valid(capsule, b"rmm_rs.resource_v1")
    with pytest.raises(TypeError):
        _rmm._c_resource(3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        _rmm._c_resource(mr.DeviceMemoryResource())


PROGRAM = r"""
#include "rmm_rs_python.h"

static PyObject* pair(PyObject* self, PyObject* args)
{
    PyObject* object;
    unsigned long long stream;
    (void)self;
    if (!PyArg_ParseTuple(args, "OK", &object, &stream)) { return NULL; }
    rmm_rs_python_table const* api = rmm_rs_python_import();
    if (!api) { return NULL; }
    rmm_rs_resource const* resource = rmm_rs_python_resource(api, object);
    if (!resource) { return NULL; }
    void* memory = NULL;
    void* handle = (void*)(size_t)stream;
    int32_t status = 0;
    for (int turn = 0; turn < 200 && status == 0; ++turn) {
        status = api->rmm_rs_resource_allocate(resource, handle, 1000, 256, &memory);
        if (status == 0) {
            status = api->rmm_rs_resource_deallocate(resource, handle, memory, 1000, 256);
        }
    }
    api->rmm_rs_resource_release(resource);
    return Py_BuildValue("ii", (int)status, api->rmm_rs_abi_version() == RMM_RS_ABI_VERSION);
}

static PyMethodDef methods[] = {{"pair", pair, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "other", NULL, -1, methods,
                                    NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_other(void) { return PyModule_Create(&module); }
"""


PAIRS = """
import sys
sys.path.insert(0, {folder!r})
import other
from rmm_rs import mr
from rmm_rs.pylibrmm.stream import Stream
pool, stream = mr.PoolMemoryResource(mr.CudaMemoryResource(), "64MiB"), Stream()
for _ in range({times}):
    assert other.pair(pool, stream.__cuda_stream__()[1]) == (0, 1)
"""


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_an_extension_module_links_to_nothing(
    tmp_path: Path, language: str, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Any]
) -> None:
    compiler = shutil.which("cc" if language == "c" else "c++")
    python = sysconfig.get_path("include")
    if compiler is None or not (Path(python) / "Python.h").exists():
        pytest.skip("needs a compiler and Python's headers")
    source = tmp_path / f"other.{language}"
    source.write_text(PROGRAM)
    includes = [python, str(INCLUDE)]
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(tmp_path / "other.so")]
    subprocess.run([*command, *(f"-I{path}" for path in includes), str(source)], check=True)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("other", None)
    import other  # type: ignore[import-not-found]

    pool = mr.StatisticsResourceAdaptor(mr.PoolMemoryResource(mr.CudaMemoryResource(), "64MiB"))
    own = Stream()
    for handle in (0, 2, own.__cuda_stream__()[1]):
        assert other.pair(pool, handle) == (0, 1)
    assert pool.allocation_counts.total_count == 600
    assert pool.allocation_counts.current_count == 0
    for wrong in (3, None):
        with pytest.raises(TypeError):
            other.pair(wrong, 0)


    if "RMM_CUDA_LIBRARY" in os.environ:
        calls = [calls_of_pairs(run, tmp_path, times) for times in (2, 3)]
        assert calls[0] == calls[1], "streams of this package are known to C"


def calls_of_pairs(run: Callable[..., Any], folder: Path, times: int) -> int:
    """The calls of the driver by a process in which C allocates and frees on a stream."""
    reports = folder / str(times)
    reports.mkdir()
    result = run(PAIRS.format(folder=str(folder), times=times), env={"RMM_SIM_REPORT": str(reports)})
    assert (result.returncode, result.stderr) == (0, "")
    (report,) = reports.iterdir()
    return int(report.read_text().split()[1])


def test_what_c_sets_comes_out_of_python() -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    mr.set_current_device_resource(pool)
    library: Any = ctypes.PyDLL(_rmm.__file__)
    resource = ctypes.c_void_p()
    assert library.rmm_rs_get_per_device_resource(0, ctypes.byref(resource)) == 0
    memory = ctypes.c_void_p()
    allocate = library.rmm_rs_resource_allocate
    allocate.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2 + [ctypes.c_void_p]
    assert allocate(resource, None, 4096, 256, ctypes.byref(memory)) == 0
    assert pool.statistics()["live_bytes"] == 4096
    pool.deallocate(memory.value or 0, 4096)
    library.rmm_rs_resource_release(resource)
    assert rmm_rs.mr.get_current_device_resource() is pool
