"""Memory of an owner outside the process: `rmm serve`, writers and readers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rmm_rs
from rmm_rs import lease, mr

Run = Callable[..., Any]

ROOT = Path(__file__).resolve().parents[3]
SIZE = 3_000_000


def program() -> str:
    """The program `rmm`, which is built beside the software driver."""
    path = Path(os.environ.get("RMM_CUDA_LIBRARY", "")).parent / "rmm"
    if not path.exists():
        pytest.skip(f"needs {path}: cargo build -p rmm-cli")
    return str(path)


class Owner:
    def __init__(self, folder: Path, *options: str) -> None:
        self.environment = {"RMM_SIM_SHARED": str(folder / "device")}
        self.command = [program(), "serve", "--directory", str(folder), "--tag", "tag", *options]
        self.socket = str(folder / "tag.sock")
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, env={**os.environ, **self.environment}, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    owner = Owner(tmp_path)
    yield owner
    owner.end()


def test_an_engine_that_was_killed_finds_its_weights(run: Run, tmp_path: Path) -> None:
    (block,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "serving-memory.md").read_text(), re.S
    )
    code = tmp_path / "program.py"
    code.write_text(block)
    env = {
        "RMM_SIM_SHARED": str(tmp_path / "device"),
        "PATH": os.pathsep.join([str(Path(program()).parent), os.environ["PATH"]]),
    }
    start = f"import os, runpy; os.chdir({str(tmp_path)!r}); "
    result = run(start + f"runpy.run_path({str(code)!r}, run_name='__main__')", env=env)
    said = re.sub(r"in [0-9.]+ ms", "in T ms", result.stdout).splitlines()
    found = "found 8 layers, the last of 7, in T ms"
    assert said == [found.replace("found", "loaded"), found, found], result.stderr
    assert not (tmp_path / "sockets" / "weights.sock").exists()


WRITE = """
import sys
import rmm_rs
from rmm_rs import lease, mr
memory = lease.connect(sys.argv[1], "rw", timeout=60)
pool = mr.PoolMemoryResource(memory, 0)
buffer = rmm_rs.DeviceBuffer(size={size}, mr=pool)
buffer.copy_from_host(bytes([{value}]) * {size})
memory.put("weights", buffer)
memory.commit()
"""


def publish(run: Run, owner: Owner, value: int, size: int = SIZE) -> None:
    code = WRITE.format(value=value, size=size)
    result = run("", arguments=("-c", code, owner.socket), env=owner.environment)
    assert result.returncode == 0, result.stderr


STATES = """
import sys
import rmm_rs
from rmm_rs import lease, mr


class Array:
    def __init__(self, pointer, shape, typestr="<f4", strides=None):
        self.__cuda_array_interface__ = dict(
            data=(pointer, False), shape=shape, typestr=typestr, strides=strides, version=3
        )


def fails(kind, call, *args, text="", **options):
    try:
        call(*args, **options)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind}")


memory = lease.connect(sys.argv[1], timeout=60)
assert (memory.lock, memory.device, memory.names()) == ("rw", 0, [])
fails(TimeoutError, lease.connect, sys.argv[1], "ro", timeout=0.05, text="writes")
fails(RuntimeError, memory.detach, text="commit first")
fails(RuntimeError, memory.attach, text="is attached")
pool = mr.PoolMemoryResource(memory, 0)
buffer = rmm_rs.DeviceBuffer(size=240, mr=pool)
memory.put("bytes", buffer)
memory.put("floats", Array(buffer.ptr, (3, 4, 5)))
memory.put("floats", Array(buffer.ptr, (3, 4, 5), strides=(80, 20, 4)))
memory.put("row", Array(buffer.ptr, (1, 5), strides=(4, 4)))
fails(ValueError, memory.put, "x", Array(buffer.ptr, (3, 4), strides=(4, 16)), text="contiguous")
fails(ValueError, memory.put, "x", Array(buffer.ptr, (3, 4), strides=(16,)), text="contiguous")
fails(ValueError, memory.put, "x", Array(buffer.ptr, (3,), strides=(-4,)), text="contiguous")
fails(ValueError, memory.put, "x", Array(buffer.ptr, (3,), "f"), text="no type")
fails(ValueError, memory.put, "x", Array(buffer.ptr, (1 << 40, 1 << 40)), text="too large")
fails(ValueError, memory.put, "x", rmm_rs.DeviceBuffer(size=1), text="in none of its blocks")
fails(TypeError, memory.put, "x", b"x")
fails(MemoryError, rmm_rs.DeviceBuffer, size=1 << 45, mr=memory)
floats = memory.get("floats")
assert not floats.__cuda_array_interface__["data"][1]
memory.commit()
assert memory.lock == "ro"
fails(RuntimeError, memory.commit)
fails(RuntimeError, memory.put, "x", buffer)
fails(MemoryError, rmm_rs.DeviceBuffer, size=1 << 20, mr=memory)
floats = memory.get("floats")
assert (floats.shape, floats.size, floats.ptr) == ((3, 4, 5), 240, buffer.ptr)
assert floats.about == b"<f4 3 4 5" and floats.mr is memory
interface = floats.__cuda_array_interface__
assert (interface["data"], interface["typestr"]) == ((buffer.ptr, True), "<f4")
assert memory.get("bytes").shape == (240,)
fails(RuntimeError, memory.get, "x", text="no name")
memory.detach()
assert memory.lock is None
fails(RuntimeError, memory.names, text="detached")
memory.attach(timeout=60)
assert memory.get("floats").ptr == buffer.ptr
print("done")
"""


def test_each_state_has_its_refusals(owner: Owner, run: Run) -> None:
    result = run("", arguments=("-c", STATES, owner.socket), env=owner.environment)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


READ = """
import sys
import rmm_rs
from rmm_rs import lease


def value():
    found = rmm_rs.DeviceBuffer(ptr=memory.get("weights").ptr, size=memory.get("weights").size)
    return set(found.tobytes())


def wait():
    print("ready", flush=True)
    sys.stdin.readline()


def refusal(kind, call, **options):
    try:
        call(**options)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind}")


memory = lease.connect(sys.argv[1], "ro", timeout=60)
assert value() == {1}
memory.detach()
wait()  # another writer, with memory of its own
assert "not there" in refusal(ValueError, memory.attach, timeout=60)
assert memory.lock is None
memory = lease.connect(sys.argv[1], "ro", timeout=60)
assert value() == {2}
wait()  # the owner is killed, and started again
refusal(ConnectionError, memory.names)
memory.detach()
assert "another owner" in refusal(RuntimeError, memory.attach, timeout=60)
assert "not there" in refusal(ValueError, memory.attach, timeout=60, any_owner=True)
print("done", flush=True)
"""


def test_a_reader_sleeps_while_others_write(owner: Owner, run: Run) -> None:
    publish(run, owner, 1)
    package = str(Path(rmm_rs.__file__).resolve().parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", READ, owner.socket],
        env={**os.environ, **owner.environment, "PYTHONPATH": package},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        publish(run, owner, 2)
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "ready\n"
        owner.end()
        owner.start()
        publish(run, owner, 3)
        assert reader.communicate("\n")[0] == "done\n"
    assert reader.returncode == 0


IMPORT = "from rmm_rs import lease; "

FORK = """
import os, sys
import rmm_rs
from rmm_rs import lease
memory = lease.connect(sys.argv[1], "rw", timeout=60)
buffer = rmm_rs.DeviceBuffer(size=100, mr=memory)
child = os.fork()
if child == 0:
    for call in (memory.names, memory.commit, lambda: lease.connect(sys.argv[1])):
        try:
            call()
        except RuntimeError as error:
            assert "fork" in str(error), error
        else:
            os._exit(1)
    del buffer, memory
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
memory.put("weights", buffer)
memory.commit()
print("done")
"""


def test_a_forked_child_is_refused_and_the_session_goes_on(owner: Owner, run: Run) -> None:
    result = run("", arguments=("-c", FORK, owner.socket), env=owner.environment)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


HELD = """
import atexit, os, sys
import rmm_rs
from rmm_rs import lease, mr
memory = lease.connect(sys.argv[1], "rw", timeout=60)
mr.set_current_device_resource(mr.PoolMemoryResource(memory, 0))
buffer = rmm_rs.DeviceBuffer(size=100)
memory.put("weights", buffer)
memory.commit()
reader = lease.connect(sys.argv[1], "ro", timeout=60)
kept = [reader.get("weights"), reader]
kept.append(kept)
"""


@pytest.mark.parametrize(
    "end", ["", "sys.exit(0)", "os._exit(0)", "atexit.register(memory.detach)"]
)
def test_leases_in_globals_end_with_the_process(owner: Owner, run: Run, end: str) -> None:
    result = run("", arguments=("-c", HELD + end, owner.socket), env=owner.environment)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    code = IMPORT + f"print(lease.connect({owner.socket!r}, 'rw', timeout=20).names())"
    result = run(code, env=owner.environment)
    assert (result.returncode, result.stdout) == (0, "[]\n"), result.stderr


def test_a_killed_writer_whose_child_lives_on_holds_no_one_up(owner: Owner) -> None:
    code = """
import os, sys
from rmm_rs import lease
memory = lease.connect(sys.argv[1], "rw", timeout=60)
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""
    package = str(Path(rmm_rs.__file__).resolve().parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", code, owner.socket],
        env={**os.environ, **owner.environment, "PYTHONPATH": package},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "forked\n"
        writer.kill()
        writer.wait()
        memory = subprocess.run(
            [sys.executable, "-c", f"{IMPORT}lease.connect({owner.socket!r}, 'rw', timeout=10)"],
            env={**os.environ, **owner.environment, "PYTHONPATH": package},
            check=False,
        )
    assert memory.returncode == 0


def test_a_stopped_owner_holds_no_allocation_up(owner: Owner, run: Run) -> None:
    code = """
import os, signal, sys
import rmm_rs
from rmm_rs import lease
memory = lease.connect(sys.argv[1], "rw", timeout=60, answer_timeout=0.1)
os.kill(int(sys.argv[2]), signal.SIGSTOP)
while ") T " not in open(f"/proc/{sys.argv[2]}/stat").read():
    pass
try:
    rmm_rs.DeviceBuffer(size=100, mr=memory)
except MemoryError as error:
    assert "not answered" in str(error), error
try:
    memory.names()
except ConnectionError:
    print("done")
"""
    arguments = ("-c", code, owner.socket, str(owner.process.pid))
    result = run("", arguments=arguments, env=owner.environment)
    owner.process.send_signal(signal.SIGCONT)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


def test_a_wait_without_end_can_be_interrupted(owner: Owner, run: Run) -> None:
    code = """
import signal, sys, threading
from rmm_rs import lease
# A program in the background begins with it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
writer = lease.connect(sys.argv[1], "rw", timeout=60)
threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
try:
    lease.connect(sys.argv[1], "ro")
except KeyboardInterrupt:
    print("done")
"""
    result = run("", arguments=("-c", code, owner.socket), env=owner.environment)
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


def test_an_interrupted_wait_leaves_no_request(owner: Owner, run: Run) -> None:
    code = """
import signal, sys, threading
from rmm_rs import lease

signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupted(call):
    threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT)).start()
    try:
        call()
    except KeyboardInterrupt:
        return True

memory = lease.connect(sys.argv[1], "rw", timeout=60)
memory.commit()
assert interrupted(lambda: lease.connect(sys.argv[1], "rw"))
# A writer that waits would hold it up, and free what is committed.
other = lease.connect(sys.argv[1], "ro", timeout=20)
del other
memory.detach()
writer = lease.connect(sys.argv[1], "rw", timeout=20)
assert interrupted(memory.attach)
assert memory.lock is None
writer.commit()
memory.attach()
print(memory.lock)
"""
    result = run("", arguments=("-c", code, owner.socket), env=owner.environment)
    assert (result.returncode, result.stdout) == (0, "ro\n"), result.stderr


def test_no_owner_and_wrong_arguments_are_refused(tmp_path: Path) -> None:
    socket = tmp_path / "tag.sock"
    with pytest.raises(ConnectionError, match="no owner answers"):
        lease.connect(socket)
    with pytest.raises(ConnectionError, match="no owner answers"):
        lease.connect(socket, timeout=0.05)
    with pytest.raises(ValueError, match="rw_or_ro"):
        lease.connect(socket, "r")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="-1"):
        lease.connect(socket, timeout=-1)
    with pytest.raises(TypeError):
        mr.PoolMemoryResource(lease, 0)  # type: ignore[arg-type]
