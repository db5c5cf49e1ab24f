"""All tests run on the software driver, unless `RMM_CUDA_LIBRARY` or `RMM_DRIVER` says otherwise.

Before: ``cargo build -p rmm-sim-driver``, and the package installed, or built in place by
``maturin develop -m crates/rmm-py/Cargo.toml``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import software_driver

# Before the extension module asks for the driver.
software_driver.use()

import pytest  # noqa: E402

import rmm_rs  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_resources() -> Iterator[None]:
    """Every test begins and ends with the first resource of each device."""
    rmm_rs.reinitialize()
    yield
    rmm_rs.reinitialize()


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python code, or arguments, in a process of its own."""

    def run_python(
        code: str,
        *,
        arguments: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *(arguments or ("-c", code))]
        environment = {**os.environ, **(env or {})}
        package = str(Path(rmm_rs.__file__).resolve().parents[1])
        path = [package, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )

    return run_python


@pytest.fixture
def trimmed() -> Callable[[Callable[[], int]], int]:
    """Trims until memory is returned: a pool returns only what is known to be unused, and the event
    that says so may be recorded by the first call."""

    def until_something(trim: Callable[[], int]) -> int:
        for _ in range(100):
            rmm_rs.pylibrmm.stream.DEFAULT_STREAM.synchronize()
            if released := trim():
                return released
        return 0

    return until_something
