"""Programs that let themselves be watched."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rmm_rs
from rmm_rs import _rmm, mr

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is for Linux")

MIB = 1 << 20
Run = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets are, for this process and its children."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield tmp_path / "rmm"
    _rmm._end_watching()


def figures(path: Path) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.connect(str(path))
        asked.sendall(b"figures\n")
        head, body = asked.makefile("rb").read().split(b"\n", 1)
    assert head == b"ok %d" % len(body)
    found: dict[str, Any] = json.loads(body)
    return found


def test_pools_are_watched_under_their_names(folder: Path) -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), 8 * MIB)
    current = mr.PoolMemoryResource(mr.CudaMemoryResource(), 4 * MIB)
    mr.set_current_device_resource(current)
    rmm_rs.watch({"workers": pool})
    rmm_rs.watch()  # once more changes nothing
    path = folder / f"{os.getpid()}.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    block = pool.allocate(MIB)
    with pytest.raises(MemoryError):
        pool.allocate(1 << 50)
    found = {pool["pool"]: pool for pool in figures(path)["pools"]}
    assert found["current"]["reserved_bytes"] == 4 * MIB
    statistics = pool.statistics()
    of_pool = found["workers"]
    assert (of_pool["live_bytes"], of_pool["failed_allocations"], of_pool["device"]) == (MIB, 1, 0)
    same = set(of_pool) & set(statistics)
    assert len(same) == 16
    assert {key: of_pool[key] for key in same} == {key: statistics[key] for key in same}
    pool.deallocate(block, MIB)
    del pool
    assert "workers" not in {pool["pool"] for pool in figures(path)["pools"]}
    _rmm._end_watching()
    assert not path.exists()


ASKED = """
import os
from pathlib import Path
import rmm_rs
tasks = [Path(f"/proc/self/task/{task}/comm").read_text() for task in os.listdir("/proc/self/task")]
print("rmm-watch\\n" in tasks)
names = [path.name for path in Path(FOLDER).glob("rmm/*")]
print([name.replace(str(os.getpid()), "PID") for name in names])
"""


@pytest.mark.parametrize(
    ("value", "is_asked"), [(None, False), ("0", False), ("", False), ("1", True)]
)
def test_a_program_is_watched_only_if_it_is_asked(
    run: Run, tmp_path: Path, value: str | None, is_asked: bool
) -> None:
    code = ASKED.replace("FOLDER", repr(str(tmp_path)))
    env = {"XDG_RUNTIME_DIR": str(tmp_path)} | ({} if value is None else {"RMM_WATCH": value})
    result = run(code, env=env)
    assert (result.returncode, result.stderr) == (0, "")
    # The thread has its name a moment after it is started.
    threads, sockets = result.stdout.splitlines()
    assert sockets == str(["PID.sock"] if is_asked else [])
    assert is_asked or threads == "False"
    # The socket goes with the program.
    assert list(tmp_path.glob("rmm/*")) == []


def test_a_program_that_cannot_be_watched_runs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rmm").write_text("")
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "RMM_WATCH": "1"}
    result = run("import rmm_rs; print(rmm_rs.DeviceBuffer(size=10).size)", env=env)
    assert (result.returncode, result.stdout) == (0, "10\n")
    assert "RuntimeWarning: RMM_WATCH:" in result.stderr and "it is no folder" in result.stderr
    result = run("import rmm_rs; rmm_rs.watch()", env={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert result.returncode == 1 and "PermissionError" in result.stderr


FORKED = """
import os, sys
import rmm_rs
from rmm_rs import mr
rmm_rs.watch({"pool": (pool := mr.PoolMemoryResource(mr.CudaMemoryResource(), 1 << 20))})
block = pool.allocate(1000)
pid = os.fork()
if pid == 0:
    sys.exit(0)  # with exit handlers
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
pid = os.fork()
if pid == 0:
    rmm_rs.watch()
    print("ready", os.getpid(), flush=True)
    sys.stdin.read(1)
    sys.exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
pool.deallocate(block, 1000)
sys.exit(status)
"""


def test_a_child_of_fork_leaves_its_parent_watched(folder: Path) -> None:
    command = [sys.executable, "-c", FORKED]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        ready, child = parent.stdout.readline().split()
        assert ready == "ready"
        (pool,) = figures(folder / f"{parent.pid}.sock")["pools"]
        assert pool["pool"] == "pool" and pool["live_bytes"] == 1024
        assert figures(folder / f"{child}.sock")["pid"] == int(child)
        parent.stdin.write("x")
        parent.stdin.close()
        assert parent.wait() == 0
    assert list(folder.iterdir()) == []
