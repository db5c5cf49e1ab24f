"""Memory that sleeps by tag, and the adapters for engines, with a stand-in for PyTorch."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import programs
import pytest
from conftest import Run

pytest.importorskip("rmm_rs._rmm", reason="rmm-rs is not installed")

BEGIN = """
import itertools, sys, warnings
import torch, rmm_rs, rmm_rs.torch
rmm_rs.torch.install("pool(virtual)")
torch.cuda.init()
MIB = 1 << 20

def raised(call, kind=RuntimeError):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")

def capture(pool=None):
    with torch.cuda.graph(None, pool=pool):
        return torch.allocate(MIB)
"""
Program = Callable[..., str]


@pytest.fixture
def program(run: Run, tmp_path: Path) -> Program:
    """Runs a program after `BEGIN`, where the packages that are named are installed."""

    def run_program(code: str, begin: str = BEGIN, **versions: str) -> str:
        for package, version in versions.items():
            folder = tmp_path / "site" / f"{package}-{version}.dist-info"
            folder.mkdir()
            folder.joinpath("METADATA").write_text(f"Name: {package}\nVersion: {version}\n")
        return run(begin + code)

    return run_program


def test_each_order_of_tags_keeps_what_is_to_be_kept(program: Program) -> None:
    program("""
sleeper = rmm_rs.torch.Sleeper()
tags = ("weights", "kv_cache", "runtime")
blocks = {}
for index, tag in enumerate(tags):
    with sleeper.region(tag):
        blocks[tag] = torch.allocate((index + 1) * 3 * MIB)
for orders in itertools.product(itertools.permutations(tags), itertools.permutations(tags)):
    for tag in tags:
        torch.cuda.write(blocks[tag], tag.encode() * 100)
    free = torch.cuda.free_memory()
    for tag in orders[0]:
        assert not sleeper.is_asleep(tag)
        assert sleeper.sleep(tag, to_host=tag != "kv_cache") > 0
        assert sleeper.is_asleep(tag) and sleeper.usage(tag).reserved == 0
    assert torch.cuda.free_memory() >= free + 18 * MIB
    # In pages of 2 MiB.
    assert sleeper.usage() == (18 * MIB, 0, 20 * MIB)
    for tag in orders[1]:
        assert sleeper.wake(tag) > 0 and sleeper.wake(tag) == 0
    assert sleeper.usage() == (18 * MIB, 20 * MIB, 0)
    for tag in ("weights", "runtime"):
        assert torch.cuda.read(blocks[tag], len(tag) * 100) == tag.encode() * 100, tag
# All of them, a hundred times.
for _ in range(100):
    sleeper.sleep(to_host={"kv_cache": False})
    sleeper.wake()
assert torch.cuda.read(blocks["weights"], 7) == b"weights"
""")


def test_a_region_s_own_backup_counts(program: Program) -> None:
    program("""
pinned = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.PinnedHostMemoryResource(), "64MiB")
sleeper = rmm_rs.torch.Sleeper(pinned)
with sleeper.region("weights", backup=True):
    kept = torch.allocate(MIB)
with sleeper.region("weights", backup=False):
    lost = torch.allocate(MIB)
torch.cuda.write(kept, b"kept")
for to_host in (False, True):
    assert sleeper.sleep("weights", to_host) == 2 * 2 * MIB
    assert pinned.statistics()["live_bytes"] == MIB
    sleeper.wake()
    assert torch.cuda.read(kept, 4) == b"kept"
assert "kept in any case" in raised(lambda: sleeper.discard("weights"), ValueError)
with sleeper.region("cache", backup=False):
    cache = torch.allocate(MIB)
assert sleeper.discard(["cache"]) == 2 * MIB
""")


def test_graphs_sleep_as_one_tag(program: Program) -> None:
    program("""
sleeper = rmm_rs.torch.Sleeper()
outputs = [capture(), capture()]
with sleeper.region("cuda_graph"):
    inputs = torch.allocate(MIB)
for name in ("cudagraph", "cuda_graph"):
    for block in (*outputs, inputs):
        torch.cuda.write(block, b"bytes")
    assert sleeper.usage(name).live == 3 * MIB
    assert sleeper.sleep(name, to_host=False) >= 3 * MIB
    assert "kept in any case" in raised(lambda: sleeper.discard(name), ValueError)
    sleeper.wake(name)
    assert all(torch.cuda.read(block, 5) == b"bytes" for block in (*outputs, inputs))
""")


def test_the_default_pool_sleeps_only_if_it_is_named(program: Program) -> None:
    program("""
from rmm_rs_torch import DEFAULT_POOL
sleeper = rmm_rs.torch.Sleeper()
block = torch.allocate(MIB)
torch.cuda.write(block, b"bytes")
assert sleeper.sleep() == 0
assert sleeper.sleep(DEFAULT_POOL) >= MIB
raised(lambda: torch.allocate(MIB))
assert sleeper.wake() >= MIB
assert torch.cuda.read(block, 5) == b"bytes"
raised(lambda: sleeper.region(DEFAULT_POOL).__enter__(), ValueError)
""")


def test_what_is_refused_changes_nothing(program: Program) -> None:
    program("""
sleeper = rmm_rs.torch.Sleeper()
with sleeper.region("weights"):
    block = torch.allocate(MIB)
with sleeper.region("kv_cache"):
    cache = torch.allocate(MIB)
    assert "region" in raised(lambda: sleeper.sleep(["weights", "kv_cache"], to_host=False))
    assert not sleeper.is_asleep("weights")
with torch.cuda.graph(None):
    assert "captured" in raised(lambda: sleeper.sleep("weights"))
assert "weigths" in raised(lambda: sleeper.sleep("weigths"), ValueError)
sleeper.sleep("weights")
with sleeper.region("weights"):
    raised(lambda: torch.allocate(MIB))
# Frees work.
torch.free(block)
assert sleeper.usage("weights").live == 0
sleeper.wake()
with sleeper.region("weights"):
    torch.free(torch.allocate(MIB))
""")


def test_a_second_sleep_keeps_the_policy_of_the_first(program: Program) -> None:
    program("""
warnings.simplefilter("error")
sleeper = rmm_rs.torch.Sleeper()
with sleeper.region("weights"):
    block = torch.allocate(MIB)
torch.cuda.write(block, b"bytes")
sleeper.sleep("weights")
assert sleeper.sleep("weights") == 0
assert "first sleep" in raised(lambda: sleeper.sleep("weights", to_host=False), RuntimeWarning)
sleeper.wake()
assert torch.cuda.read(block, 5) == b"bytes"
sleeper.sleep("weights", to_host=False)
assert "first sleep" in raised(lambda: sleeper.sleep("weights"), RuntimeWarning)
sleeper.wake()
""")


def test_a_wake_without_memory_is_undone_and_tried_again(program: Program) -> None:
    program("""
sleeper = rmm_rs.torch.Sleeper()
free = torch.cuda.free_memory()
with sleeper.region("weights"):
    weights = torch.allocate(32 * MIB)
with sleeper.region("kv_cache"):
    cache = torch.allocate(free // 2)
torch.cuda.write(weights, b"bytes")
sleeper.sleep(to_host={"kv_cache": False})
other = torch.allocate(free // 2 + 64 * MIB)
for _ in range(2):
    text = raised(sleeper.wake, torch.OutOfMemoryError)
    assert text.startswith("CUDA out of memory"), text
    assert sleeper.is_asleep("weights") and sleeper.is_asleep("kv_cache")
# With an open region the first of them cannot be put back: the error is still that of the wake.
with sleeper.region("weights"):
    try:
        sleeper.wake()
    except torch.OutOfMemoryError as error:
        assert "could not be put back" in error.__notes__[0]
    else:
        raise AssertionError("there was memory")
assert not sleeper.is_asleep("weights") and sleeper.is_asleep("kv_cache")
torch.free(other)
sleeper.wake()
assert torch.cuda.read(weights, 5) == b"bytes"
""")


def test_a_sleep_without_host_memory_is_undone(program: Program) -> None:
    program("""
pinned = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.PinnedHostMemoryResource(), 0, "4MiB")
sleeper = rmm_rs.torch.Sleeper(pinned)
blocks = {}
for tag, size in (("kv_cache", 1), ("small", 1), ("large", 32)):
    with sleeper.region(tag):
        blocks[tag] = torch.allocate(size * MIB)
    torch.cuda.write(blocks[tag], tag.encode())
raised(lambda: sleeper.sleep(to_host={"kv_cache": False}))
for tag, block in blocks.items():
    assert not sleeper.is_asleep(tag)
    assert torch.cuda.read(block, len(tag)) == tag.encode()
sleeper.sleep("small")
sleeper.wake()
""")


def test_regions_nest(program: Program) -> None:
    program("""
sleeper = rmm_rs.torch.Sleeper()
live = lambda tag: sleeper.usage(tag).live // MIB
with sleeper.region("a"):
    with sleeper.region("b"):
        with sleeper.region("a"):
            one = torch.allocate(MIB)
        two = torch.allocate(2 * MIB)
        with sleeper.outside():
            four = torch.allocate(4 * MIB)
    try:
        with sleeper.region("b"):
            raise KeyError
    except KeyError:
        eight = torch.allocate(8 * MIB)
assert (live("a"), live("b")) == (9, 2)
sleeper.sleep()
assert sleeper.tags() == ["a", "b"]
sleeper.wake()
for block in (one, two, eight):
    torch.free(block)
free = torch.cuda.free_memory()
sleeper.release()
torch.cuda.empty_cache()
assert torch.cuda.free_memory() >= free + 11 * MIB
assert sleeper.tags() == [] and sleeper.usage() == (0, 0, 0)
raised(lambda: sleeper.usage("a"), ValueError)
""")


def test_contents_go_to_memory_of_the_program(program: Program) -> None:
    program("""
pinned = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.PinnedHostMemoryResource(), "64MiB")
sleeper = rmm_rs.torch.Sleeper(pinned)
with sleeper.region("weights"):
    block = torch.allocate(MIB)
torch.cuda.write(block, b"bytes")
sleeper.sleep()
assert pinned.statistics()["live_bytes"] >= MIB
sleeper.wake()
assert pinned.statistics()["live_bytes"] == 0
assert torch.cuda.read(block, 5) == b"bytes"
""")


def test_memory_must_be_virtual_and_of_rmm_rs(program: Program, run: Run) -> None:
    text = run("""
import torch, rmm_rs.torch
sleeper = rmm_rs.torch.Sleeper()
for installs in (False, True):
    if installs:
        rmm_rs.torch.install("pool(cuda)")
    torch.cuda.init() if installs else None
    try:
        with sleeper.region("weights"):
            pass
    except RuntimeError as error:
        print(error)
assert sleeper.tags() == []
""")
    native, not_virtual = text.splitlines()
    assert "PyTorch's allocator" in native and 'install("pool")' in native
    assert "virtual memory" in not_virtual and 'install("pool")' in not_virtual


VLLM = """
import rmm_rs_torch
from vllm.device_allocator import get_mem_allocator_instance
from vllm.device_allocator.cumem import CuMemAllocator
from vllm.device_allocator.sleep_mode_backend import SleepModeBackendFactory
for _ in range(2):
    rmm_rs_torch.register_vllm()

def start(names=("workspace", "weights", "runtime")):
    # As a worker does.
    blocks = {}
    allocator = get_mem_allocator_instance()
    assert allocator.get_current_usage() == 0
    for tag in names:
        with allocator.use_memory_pool(tag=tag):
            blocks[tag] = torch.allocate(MIB)
    with allocator.use_memory_pool(tag="runtime"), allocator.use_memory_pool(tag="kv_cache"):
        blocks["kv_cache"] = torch.allocate(8 * MIB)
    with allocator.use_memory_pool(), allocator.use_memory_pool("weights"):
        pass
    return allocator, blocks

def write(blocks):
    for tag, block in blocks.items():
        torch.cuda.write(block, tag.encode())

def kept(blocks):
    return sorted(t for t, b in blocks.items() if torch.cuda.read(b, len(t)) == t.encode())

def spoil(blocks):
    # What was discarded may hold anything.
    for tag in ("kv_cache", "workspace"):
        torch.cuda.write(blocks[tag], bytes(9))
"""


def test_vllm_suspends_by_the_backend_of_that_name(program: Program) -> None:
    program(
        VLLM
        + """
allocator, blocks = start()
backend = SleepModeBackendFactory.create_backend("rmm-rs")
blocks["graph"] = capture()
sleeper = allocator.sleeper
for level in (1, 2, 1):
    write(blocks)
    free = torch.cuda.free_memory()
    backend.suspend(level)
    assert backend.state() == "SUSPENDED"
    assert torch.cuda.free_memory() >= free + 12 * MIB
    assert sleeper.usage().reserved == 0
    # Of what is not named only weights and the cache sleep on.
    backend.resume(["weights"])
    assert [tag for tag in sleeper.tags() if sleeper.is_asleep(tag)] == ["kv_cache"]
    assert backend.state() == "SUSPENDED"
    backend.resume(["kv_cache"])
    assert backend.state() == "RUNNING"
    spoil(blocks)
    assert kept(blocks) == ["graph", "runtime", *(["weights"] if level == 1 else [])]
backend.discard(("kv_cache", "unknown"))
assert sleeper.is_asleep("kv_cache") and not sleeper.is_asleep("weights")
backend.suspend(1)
backend.resume()
assert backend.state() == "RUNNING"
assert "levels 1 and 2" in raised(lambda: backend.suspend(3), ValueError)
kind = type(backend)
assert kind.preserves_communicators() and kind.preserves_compiled_artifacts()
assert not kind.preserves_graphs_with_communicators() and not kind.supports_durable_storage()
for block in blocks.values():
    torch.free(block)
assert allocator.get_current_usage() == 0
allocator.release_pools()
start()
""",
        vllm="0.33.0",
    )


def test_vllm_s_own_backend_runs_on_it(program: Program) -> None:
    program(
        VLLM
        + """
allocator, blocks = start()
backend = SleepModeBackendFactory.create_backend("cumem")
write(blocks)
backend.suspend(1)
backend.resume()
spoil(blocks)
assert kept(blocks) == ["runtime", "weights"]
# Graphs sleep once they are captured to the pool of this name.
with allocator.cudagraph_pool() as pool:
    blocks["graph"] = capture(pool)
with allocator.cudagraph_pool() as again:
    assert again == pool
write(blocks)
backend.suspend(2)
assert allocator.sleeper.is_asleep("cudagraph")
backend.resume()
assert "graph" in kept(blocks) and allocator.is_asleep() is False
# Without tags the memory of no tag is kept.
with allocator.use_memory_pool():
    plain = torch.allocate(MIB)
torch.cuda.write(plain, b"plain")
allocator.sleep()
allocator.wake_up()
assert torch.cuda.read(plain, 5) == b"plain"
""",
        vllm="0.33.0+cu130",
    )


def test_what_loading_has_freed_goes_back(program: Program) -> None:
    program(
        VLLM
        + """
allocator = get_mem_allocator_instance()
with allocator.use_memory_pool("weights"):
    weights = torch.allocate(MIB)
    torch.free(torch.allocate(64 * MIB))
assert allocator.sleeper.usage("weights").reserved < 8 * MIB
""",
        vllm="0.33.0",
    )


def test_other_versions_of_vllm_are_named(program: Program) -> None:
    program(
        """
import rmm_rs_torch
text = raised(rmm_rs_torch.register_vllm, ImportError)
assert "vllm 0.34.0" in text and "serves vllm 0.33" in text, text
""",
        vllm="0.34.0",
    )


def test_a_vllm_without_the_registry_is_named(program: Program) -> None:
    program(
        """
import rmm_rs_torch, vllm.device_allocator.sleep_mode_backend as module
del module.SleepModeBackendFactory
text = raised(rmm_rs_torch.register_vllm, ImportError)
assert "SleepModeBackendFactory" in text and "serves vllm 0.33" in text, text
""",
        vllm="0.33.1",
    )


def test_engines_are_left_alone_without_rmm_rs(program: Program) -> None:
    program(
        """
import torch, rmm_rs_torch
rmm_rs_torch.register_vllm()
rmm_rs_torch.register_memory_saver()
from vllm.device_allocator.cumem import CuMemAllocator
from torch_memory_saver import torch_memory_saver
assert CuMemAllocator.instance is None and torch_memory_saver._impl is None
""",
        begin="",
        vllm="0.99",
    )


def test_vllm_has_not_made_its_own_before(program: Program) -> None:
    program(
        """
import rmm_rs_torch
from vllm.device_allocator.cumem import CuMemAllocator
CuMemAllocator.get_instance()
assert "vllm.general_plugins" in raised(rmm_rs_torch.register_vllm, ImportError)
""",
        vllm="0.33.0",
    )


def test_torch_memory_saver_pauses_by_it(program: Program) -> None:
    program(
        """
import rmm_rs_torch, torch_memory_saver as package
from torch_memory_saver import torch_memory_saver as saver
for _ in range(2):
    rmm_rs_torch.register_memory_saver()
with package.configure_subprocess():
    pass
with saver.region("weights", enable_cpu_backup=True):
    weights = torch.allocate(MIB)
    with saver.disable():
        plain = torch.allocate(MIB)
with saver.region("kv_cache"):
    cache = torch.allocate(8 * MIB)
for block, text in ((weights, b"weights"), (plain, b"plain"), (cache, b"cache")):
    torch.cuda.write(block, text)
sleeper = saver._impl.sleeper
free = torch.cuda.free_memory()
saver.pause("kv_cache")
assert torch.cuda.free_memory() >= free + 8 * MIB
assert sleeper.is_asleep("kv_cache") and not sleeper.is_asleep("weights")
saver.pause()
saver.pause("no such tag")
assert torch.cuda.read(plain, 5) == b"plain"
saver.resume("weights")
assert torch.cuda.read(weights, 7) == b"weights" and sleeper.is_asleep("kv_cache")
saver.resume()
assert not sleeper.is_asleep("kv_cache")
# Graphs are paused once there are some, with a pool that the program names, too.
ordinary = capture()
saver.pause()
assert not sleeper.is_asleep("cuda_graph")
saver.resume()
pool = torch.cuda.graph_pool_handle()
for _ in range(2):
    with saver.cuda_graph(None, pool=pool, tag="cuda_graph"):
        output = torch.allocate(MIB)
torch.cuda.write(output, b"output")
saver.pause("cuda_graph")
assert sleeper.is_asleep("cuda_graph") and not sleeper.is_asleep("weights")
saver.resume("cuda_graph")
assert torch.cuda.read(output, 6) == b"output"
for call in (
    lambda: saver.region("x", enable_disk_backup=True).__enter__(),
    lambda: setattr(saver, "memory_margin_bytes", 1),
):
    raised(call, NotImplementedError)
""",
        torch_memory_saver="0.0.10",
    )


def test_torch_memory_saver_s_modes_are_used_where_they_are(program: Program) -> None:
    program(
        """
import rmm_rs_torch, torch_memory_saver as package
modes = {}
def register_hook_mode(name, factory, *, uses_preload=True):
    modes[name] = (factory, uses_preload)
package.register_hook_mode = register_hook_mode
rmm_rs_torch.register_memory_saver()
factory, uses_preload = modes["rmm-rs"]
assert not uses_preload and package.torch_memory_saver._impl is None
with factory().region("weights", enable_cpu_backup=True):
    torch.allocate(MIB)
""",
        torch_memory_saver="0.0.11",
    )


def test_other_torch_memory_savers_are_refused(program: Program) -> None:
    program(
        """
import rmm_rs_torch
from torch_memory_saver import torch_memory_saver as saver
saver._impl = object()
assert "was used before" in raised(rmm_rs_torch.register_memory_saver, ImportError)
del saver._impl
assert "_impl" in raised(rmm_rs_torch.register_memory_saver, ImportError)
""",
        torch_memory_saver="0.0.10",
    )
    program(
        """
import rmm_rs_torch
text = raised(rmm_rs_torch.register_memory_saver, ImportError)
assert "serves torch_memory_saver 0.0.10" in text, text
""",
        torch_memory_saver="0.0.9",
    )


def test_entry_points_name_functions() -> None:
    text = (programs.HERE.parent / "pyproject.toml").read_text()
    points = tomllib.loads(text)["project"]["entry-points"]
    assert {"vllm.general_plugins", "sglang.srt.plugins", "torch.backends"} == set(points)
    names = [name for group in points.values() for name in group.values()]
    source = (programs.HERE.parent / "rmm_rs_torch" / "__init__.py").read_text()
    for name in names:
        module, function = name.split(":")
        assert module == "rmm_rs_torch" and f'"{function}"' in source
