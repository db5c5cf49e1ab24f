"""The real RMM on the software driver.

RMM's library has NVIDIA's CUDA runtime linked into it, which does not start on any driver but NVIDIA's.
What of RMM calls that runtime is replaced before RMM is loaded, by functions of the same names in a
library that comes first in the order of look-up: devices, streams, and the resource over cudaMalloc.
Everything else is RMM's own code: its classes, adaptors, pool, buffers and the map of devices. Copies,
and events of RMM's pool, are calls of the runtime inside of it and fail; tests of this package need
none.

`use` is called before ``import rmm``.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FOLDER = ROOT / "target" / "python" / "software"
DRIVER = ROOT / "target" / "debug" / "librmm_sim_driver.so"


class CannotRun(Exception):
    """What is missing on this machine."""


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CannotRun(f"the package {package} is missing")
    return Path(next(iter(spec.submodule_search_locations)))


def _build() -> Path:
    """The library with the replaced functions, compiled if it is older than its sources."""
    tests = ROOT / "xtask" / "rmm-tests"
    sample = tests / "sample" / "cpp"
    sources = [
        HERE / "stand_in.cpp",
        *sorted((tests / "cudart").glob("*.cpp")),
        sample / "src" / "cuda_device.cpp",
        sample / "src" / "cuda_stream.cpp",
    ]
    library = FOLDER / "libstand_in.so"
    rmm_version = _folder("librmm") / "include" / "rmm" / "version_config.hpp"
    inputs = [*sources, *(tests / "cudart").glob("*.hpp"), rmm_version, Path(__file__)]
    newest = max(source.stat().st_mtime for source in inputs)
    if library.exists() and library.stat().st_mtime > newest:
        return library
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None:
        raise CannotRun("there is no g++")
    librmm, cuda = _folder("librmm"), _folder("nvidia.cu13") / "include"
    rmm, logger = librmm / "include", _folder("rapids_logger") / "include"
    includes = [rmm / "rapids", logger, cuda, rmm, sample / "include"]
    unfinished = library.with_suffix(f".{os.getpid()}")
    command = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", "-w", "-o", str(unfinished)]
    command += [f"-I{path}" for path in includes]
    command += [str(source) for source in sources] + [str(FOLDER / "libcuda.so.1")]
    # With RMM's library as one that it needs, which it comes before in the order of look-up.
    command += [f"-L{librmm / 'lib64'}", "-lrmm", f"-Wl,-rpath,{librmm / 'lib64'}"]
    command += ["-Wl,--allow-shlib-undefined"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    unfinished.replace(library)
    return library


def use() -> ctypes.CDLL:
    """Loads the software driver and the replaced functions, which it returns.

    Raises
    ------
    CannotRun
        If something is missing.
    """
    if "rmm" in sys.modules:
        raise RuntimeError("import rmm comes after this")
    if sys.platform != "linux":
        raise CannotRun("the software driver is a library of Linux")
    if not DRIVER.exists():
        raise CannotRun(f"{DRIVER} is missing: cargo build -p rmm-sim-driver")
    FOLDER.mkdir(parents=True, exist_ok=True)
    link = FOLDER / "libcuda.so.1"
    if not link.exists() or not link.samefile(DRIVER):
        link.unlink(missing_ok=True)
        link.symlink_to(DRIVER)
    os.environ.setdefault("RMM_SIM_DEVICES", "2")
    os.environ.pop("RMM_CUDA_LIBRARY", None)
    # By this name: whoever asks for it, RMM, CUDA's Python package or rmm_rs, then gets this one.
    ctypes.CDLL(str(link), ctypes.RTLD_GLOBAL)
    rapids_logger = importlib.import_module("rapids_logger")
    rapids_logger.load_library()
    runtime = ctypes.CDLL(str(_build()), ctypes.RTLD_GLOBAL)
    _replace_python(runtime)
    return runtime


def _replace_python(runtime: ctypes.CDLL) -> None:
    """The functions of CUDA's Python package that RMM's Python code calls."""
    bindings: Any = importlib.import_module("cuda.bindings.runtime")
    status = bindings.cudaError_t

    def get_device() -> tuple[Any, int]:
        device = ctypes.c_int()
        return status(runtime.cudaGetDevice(ctypes.byref(device))), device.value

    def set_device(device: int) -> tuple[Any]:
        return (status(runtime.cudaSetDevice(device)),)

    def get_device_count() -> tuple[Any, int]:
        count = ctypes.c_int()
        return status(runtime.cudaGetDeviceCount(ctypes.byref(count))), count.value

    bindings.cudaGetDevice = get_device
    bindings.cudaSetDevice = set_device
    bindings.cudaGetDeviceCount = get_device_count
