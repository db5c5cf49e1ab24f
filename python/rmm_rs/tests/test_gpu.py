"""Devices and versions, under the names of RMM's ``rmm._cuda.gpu``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmm_rs._cuda import gpu


def test_the_properties_of_a_device_are_those_of_cuda() -> None:
    properties = gpu.getDeviceProperties(gpu.getDevice())
    assert isinstance(properties.name, bytes) and properties.totalGlobalMem > 0
    assert len(properties.uuid.bytes) == 16 and any(properties.uuid.bytes)
    for name, attribute in {"major": 75, "memoryPoolsSupported": 115, "hostNumaId": 134}.items():
        assert getattr(properties, name) == gpu.getDeviceAttribute(attribute, 0)
    assert properties.major > 0
    for name, length in {"maxThreadsDim": 3, "maxGridSize": 3, "maxTexture2D": 2}.items():
        assert len(getattr(properties, name)) == length
    assert len(vars(properties)) > 90


RUNTIME = """
import ctypes, sys
from rmm_rs._cuda import gpu
assert gpu.runtimeGetVersion() == gpu.driverGetVersion(), "no runtime is there"
library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
assert gpu.runtimeGetVersion() == 12345, gpu.runtimeGetVersion()
"""


def test_the_version_is_that_of_the_runtime_that_is_loaded(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a compiler")
    source, library = tmp_path / "runtime.c", tmp_path / "libcudart.so.12"
    source.write_text("int cudaRuntimeGetVersion(int *version) { *version = 12345; return 0; }")
    command = [compiler, "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library)]
    subprocess.run([*command, str(source)], check=True)
    # As if `cuda.bindings` were not installed.
    hidden = "import sys; sys.modules['cuda.bindings.runtime'] = None\n"
    result = run("", arguments=("-c", hidden + RUNTIME, str(library)))
    assert (result.returncode, result.stderr) == (0, "")


def test_the_version_is_that_of_the_bindings_where_they_are(run: Callable[..., Any]) -> None:
    result = run("""
import sys, types
bindings = types.ModuleType("cuda.bindings.runtime")
bindings.getLocalRuntimeVersion = lambda: (0, 13010)
for name in ("cuda", "cuda.bindings"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["cuda.bindings.runtime"] = bindings
from rmm_rs._cuda import gpu
assert gpu.runtimeGetVersion() == 13010
bindings.getLocalRuntimeVersion = lambda: (35, 0)
assert gpu.runtimeGetVersion() == gpu.driverGetVersion()
""")
    assert (result.returncode, result.stderr) == (0, "")
