"""The end of a process, and what refuses to be imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

BEGIN = """
import rmm, rmm.mr, rmm_rs.mr, rmm_rs_plugin
from rmm.pylibrmm.stream import Stream
"""
HELD = {
    "current": """
rmm_rs_plugin.install("1MiB")
kept = [rmm.DeviceBuffer(size=100), rmm.DeviceBuffer(size=100, stream=Stream())]
""",
    "below and above": """
pool = rmm_rs_plugin.PoolMemoryResource(
    rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource()), "1MiB")
rmm.mr.set_current_device_resource(rmm.mr.TrackingResourceAdaptor(pool))
kept = rmm.DeviceBuffer(size=100)
""",
    "wrapped": """
pool = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.CudaMemoryResource(), "1MiB")
rmm.mr.set_current_device_resource(rmm_rs_plugin.wrap(pool))
kept = rmm.DeviceBuffer(size=100), rmm_rs.DeviceBuffer(size=100, mr=pool)
""",
    "rmm's pool over ours": """
pool = rmm.mr.PoolMemoryResource(rmm_rs_plugin.PoolMemoryResource(None, "1MiB"), 1 << 18)
rmm.mr.set_current_device_resource(pool)
kept = rmm.DeviceBuffer(size=100)
""",
    "callback": """
base = rmm.mr.CudaMemoryResource()
upstream = rmm.mr.CallbackMemoryResource(base.allocate, base.deallocate)
rmm.mr.set_current_device_resource(rmm_rs_plugin.PoolMemoryResource(upstream, "1MiB"))
kept = rmm.DeviceBuffer(size=100)
""",
    "cycle": """
class Derived(rmm_rs_plugin.PoolMemoryResource):
    pass
kept = Derived(None, "1MiB")
kept.itself = kept, rmm.DeviceBuffer(size=100, mr=kept)
""",
    "builtins": """
import builtins
builtins.kept = rmm.DeviceBuffer(size=100, mr=rmm_rs_plugin.PoolMemoryResource(None, "1MiB"))
""",
    "daemon": """
import threading
rmm_rs_plugin.install("1MiB")
ready = threading.Event()
def work():
    stream = Stream()
    while True:
        kept = rmm.DeviceBuffer(size=100, stream=stream)
        ready.set()
threading.Thread(target=work, daemon=True).start()
ready.wait()
""",
}
ENDS = {
    "return": ("", 0),
    "sys.exit": ("import sys; sys.exit(3)", 3),
    "exception": ("raise SystemExit(4)", 4),
    "os._exit": ("import os; os._exit(5)", 5),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("held", HELD)
def test_a_process_ends_quietly(run: Run, held: str, end: str) -> None:
    code, status = ENDS[end]
    result = run(BEGIN + HELD[held] + "\n" + code)
    assert (result.returncode, result.stderr) == (status, "")


def test_cpp_statics_are_the_last_users(run: Run, runtime: Any) -> None:
    code = BEGIN + HELD["current"] + f"""
import ctypes
stand_in = ctypes.CDLL({runtime._name!r})
stand_in.stand_in_keep()
stand_in.stand_in_allocate(ctypes.c_size_t(100))
"""
    result = run(code)
    assert (result.returncode, result.stderr) == (0, "")


def test_another_release_of_rmm_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rmm.py").write_text('__version__ = "26.12.01"\n')
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import rmm_rs_plugin"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last == (
        "ImportError: rmm_rs_plugin was built for RMM 26.10, and RMM 26.12.01 is installed: "
        'pip install "rmm-rs-plugin-cu13==26.12.*"'
    )


def test_the_alias_is_refused(run: Run) -> None:
    code = "import rmm_rs.as_rmm, rmm_rs_plugin"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "as_rmm" in result.stderr.splitlines()[-1]
    # The other way round the alias refuses.
    result = run(BEGIN + "import rmm_rs.as_rmm")
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("ImportError: rmm is imported already")


def test_an_import_asks_for_no_driver(tmp_path: Path) -> None:
    code = """
import rmm_rs_plugin
try:
    rmm_rs_plugin.PoolMemoryResource(None, "1MiB")
except MemoryError as error:
    print(error)
except RuntimeError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "RMM_CUDA_LIBRARY": str(tmp_path / "libcuda.so.1")},
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "driver" in result.stdout or "libcuda" in result.stdout
