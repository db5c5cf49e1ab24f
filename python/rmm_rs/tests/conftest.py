"""All tests run on the software driver, unless `RMM_CUDA_LIBRARY` or `RMM_DRIVER` says otherwise.

Before: ``cargo build -p rmm-sim-driver -p rmm-cli``, and the package installed, or built in place by
``maturin develop`` in ``python/rmm_rs``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

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
def resource_classes() -> dict[str, type[rmm_rs.mr.DeviceMemoryResource]]:
    """Every class of resources that the extension module has, by its name."""
    return {
        name: found
        for name, found in vars(rmm_rs._rmm).items()
        if isinstance(found, type) and issubclass(found, rmm_rs.mr.DeviceMemoryResource)
    }


@pytest.fixture
def two_devices() -> None:
    """Skips the test on a machine with one GPU."""
    from rmm_rs._cuda.gpu import getDeviceCount

    if getDeviceCount() < 2:
        pytest.skip("needs two devices")


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
        path = [*filter(None, [environment.get("PYTHONPATH")]), package]
        environment["PYTHONPATH"] = os.pathsep.join(path)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )

    return run_python


@pytest.fixture
def driver(tmp_path: Path) -> dict[str, str]:
    """An environment in which other libraries find the software driver, and an NVML of its own."""
    library = os.environ.get("RMM_CUDA_LIBRARY")
    if library is None:
        return {}
    (tmp_path / "libcuda.so.1").symlink_to(library)
    software = str(Path(__file__).resolve().parent / "software")
    path = [software, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(path)}


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails the test if the software driver found a violation in a process that the test ran."""
    folder = tmp_path / "reports"
    folder.mkdir()
    monkeypatch.setenv("RMM_SIM_REPORT", str(folder))
    yield
    lines = [line for report in folder.iterdir() for line in report.read_text().splitlines()]
    found = [line.replace("\\n", "\n") for line in lines if line.startswith("violation")]
    assert found == [], "\n".join(found)


@pytest.fixture
def stalled() -> Callable[[Any], AbstractContextManager[None]]:
    """Keeps a stream busy for a while: by a function of the host that waits."""
    library = ctypes.CDLL(os.environ.get("RMM_CUDA_LIBRARY", "libcuda.so.1"))

    @contextmanager
    def keep_busy(stream: Any) -> Iterator[None]:
        done = threading.Event()
        wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _data: None if done.wait(60) else None)
        handle = ctypes.c_void_p(stream.__cuda_stream__()[1])
        assert library.cuLaunchHostFunc(handle, wait, None) == 0
        try:
            yield
        finally:
            done.set()
            stream.synchronize()

    return keep_busy


@pytest.fixture
def needs() -> Callable[..., None]:
    """Skips the test where a package is not installed."""

    def skip_without(*packages: str) -> None:
        for package in packages:
            try:
                found = importlib.util.find_spec(package)
            except ModuleNotFoundError:
                found = None
            if found is None:
                pytest.skip(f"needs {package}")

    return skip_without


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
