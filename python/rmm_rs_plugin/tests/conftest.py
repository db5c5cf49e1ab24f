"""All tests run on the software driver, unless `RMM_DRIVER` is ``cuda``: then on a GPU.

Before: ``cargo build -p rmm-sim-driver``, and rmm-rs and this package installed beside RMM. ``cargo
xtask python`` does it all.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ON_GPU = os.environ.get("RMM_DRIVER") == "cuda"

sys.path.insert(0, str(HERE))
import software  # noqa: E402

RUNTIME: ctypes.CDLL | None = None if ON_GPU else software.use()

import pytest  # noqa: E402
import rmm  # noqa: E402
import rmm.mr  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_resources() -> Iterator[None]:
    """Every test begins and ends with RMM's first resource."""
    rmm.mr.set_per_device_resource(0, rmm.mr.CudaMemoryResource())
    yield
    rmm.mr.set_per_device_resource(0, rmm.mr.CudaMemoryResource())


@pytest.fixture
def runtime() -> ctypes.CDLL:
    """The functions of `stand_in.cpp`."""
    if RUNTIME is None:
        pytest.skip("counts calls of the software device's runtime")
    return RUNTIME


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python code in a process of its own, after the stand-ins are loaded."""

    def run_python(
        code: str, *, env: dict[str, str] | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        begin = "" if ON_GPU else f"import sys; sys.path.insert(0, {str(HERE)!r}); import software; software.use()\n"
        command = [sys.executable, "-c", begin + code]
        environment = {**os.environ, **(env or {})}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )

    return run_python
