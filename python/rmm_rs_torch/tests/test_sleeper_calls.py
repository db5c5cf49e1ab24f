"""Which pools a `Sleeper` names to the compiled module, with stand-ins in Python for the module and
for PyTorch: several devices, and threads that begin regions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "rmm_rs_torch"
BEGIN = """
import sys, threading, types
device = 0
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(current_device=lambda: device, empty_cache=lambda: None)
sys.modules["torch"] = torch

class Module:
    def __init__(self):
        self.asleep, self.made = set(), 0

    def make_tag(self, device):
        self.made += 1
        return (self.made, self.made)

    def sleep(self, device, pool, to_host, memory):
        self.asleep.add((device, pool))
        return 1

    def wake(self, device, pool):
        self.asleep.remove((device, pool))
        return 1

    def is_asleep(self, device, pool):
        return (device, pool) in self.asleep

    def graph_pools(self):
        return []

    def begin_region(self, device, pool):
        return pool

    def nothing(self, device, pool):
        pass

    check_may_sleep = end_region = trim = nothing

from rmm_rs_torch._sleeper import DEFAULT_POOL, Sleeper
sleeper = Sleeper()
sleeper._loaded = module = Module()
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "rmm_rs_torch"
    folder.mkdir()
    for path in SOURCES.glob("*.py"):
        (folder / path.name).symlink_to(path)
    (folder / "_built_for.py").write_text("TORCH_VERSIONS = ()\n")
    return tmp_path


def program(package: Path, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(package)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wake_reaches_the_default_pool_of_every_device(package: Path) -> None:
    program(
        package,
        """
for tags in (None, DEFAULT_POOL):
    for device in range(3):
        sleeper.sleep(DEFAULT_POOL)
    assert module.asleep == {(number, (0, 0)) for number in range(3)}
    device = 1
    assert sleeper.wake(tags) == 3 and not module.asleep
    assert sleeper.wake(tags) == 0
# A tag that is named leaves them.
with sleeper.region("weights"):
    pass
sleeper.sleep([DEFAULT_POOL, "weights"])
assert sleeper.wake("weights") == 1 and sleeper.is_asleep(DEFAULT_POOL)
""",
    )


def test_a_region_of_another_device_may_begin_while_a_tag_is_looked_up(package: Path) -> None:
    program(
        package,
        """
sys.setswitchinterval(1e-6)
with sleeper.region("weights"):
    pass
failures, is_over = [], False

def look_up():
    while not is_over and not failures:
        try:
            sleeper.is_asleep("weights")
            sleeper.trim("weights")
        except RuntimeError as error:
            failures.append(error)

thread = threading.Thread(target=look_up)
thread.start()
for device in range(20_000):
    with sleeper.region("weights"):
        pass
is_over = True
thread.join()
assert not failures, failures
""",
    )


def test_tags_end_with_their_sleeper(package: Path) -> None:
    program(
        package,
        """
import gc
released = []
module.release_pool = lambda device, pool: released.append((device, pool))
for device in range(2):
    with sleeper.region("weights"):
        pass
with sleeper.region("cache"):
    pass
sleeper.release("cache")
assert released == [(1, (3, 3))]
del sleeper
gc.collect()
assert released == [(1, (3, 3)), (0, (1, 1)), (1, (2, 2))]
""",
    )


def test_a_tensor_without_elements_is_read(package: Path) -> None:
    program(
        package,
        """
class Empty:
    shape, dtype, nbytes = (0, 3), "float32", 0
    is_contiguous = lambda self: True
    data_ptr = lambda self: 0
    untyped_storage = lambda self: self

torch.empty = lambda shape, dtype, device: (shape, dtype, device)
assert sleeper.read(Empty()) == ((0, 3), "float32", "cpu")
""",
    )
