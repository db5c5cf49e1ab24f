"""Memory that sleeps by tag, with the real PyTorch on a GPU: run.sh."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_gpu import run

HERE = Path(__file__).resolve().parent
DOCUMENTATION = HERE.parents[3] / "docs" / "pytorch.md"

BEGIN = """
import torch, rmm_rs.torch
rmm_rs.torch.install("pool")
MIB = 1 << 20
sleeper = rmm_rs.torch.Sleeper()

def free():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]
"""

#: A model, a cache and a graph of both.
SERVER = """
torch.manual_seed(0)
def build(region):
    with region("weights"):
        model = torch.nn.Sequential(
            torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)
        ).cuda()
    with region("kv_cache"):
        cache = torch.zeros(256 * MIB, dtype=torch.uint8, device="cuda")
    return model, cache

def warm_up(model, request, cache):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        step(model, request, cache)
    torch.cuda.current_stream().wait_stream(side)

def step(model, request, cache):
    answer = model(request)
    cache[:4096].copy_(answer.flatten().view(torch.uint8)[:4096])
    return torch.tanh(answer) * 2
"""


@pytest.fixture
def engines(tmp_path: Path) -> str:
    """A folder with the stand-ins for vLLM and torch_memory_saver, without that for PyTorch."""
    for package, version in (("vllm", "0.33.0"), ("torch_memory_saver", "0.0.10")):
        (tmp_path / package).symlink_to(HERE.parent / "stand_in" / package)
        about = tmp_path / f"{package}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Name: {package}\nVersion: {version}\n")
    return os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])


def test_the_program_of_the_documentation_runs() -> None:
    blocks = [block.split("```")[0] for block in DOCUMENTATION.read_text().split("```py\n")[1:]]
    run(next(block for block in blocks if "Sleeper()" in block), begin="")


def test_graphs_replay_after_a_hundred_sleeps() -> None:
    run(
        SERVER
        + """
model, cache = build(sleeper.region)
request = torch.randn(64, 1024, device="cuda")
warm_up(model, request, cache)
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    answer = step(model, request, cache)
weights = [p.detach().cpu() for p in model.parameters()]
# Another shape in the same pool.
small = torch.randn(8, 1024, device="cuda")
second = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(second, pool=graph.pool()):
    answer_of_small = model(small)
for i in range(100):
    request.normal_()
    small.normal_()
    graph.replay()
    second.replay()
    torch.cuda.synchronize()
    expected, expected_small = answer.clone(), answer_of_small.clone()
    before = free()
    held = sleeper.usage()
    assert held.reserved >= 256 * MIB and held.asleep == 0
    assert sleeper.sleep(to_host={"kv_cache": False}) > 0
    assert free() >= before + 256 * MIB
    # Other work takes the memory.
    torch.full((64 * MIB,), 7.0, device="cuda")
    torch.cuda.empty_cache()
    sleeper.wake()
    assert torch.equal(answer, expected), i
    graph.replay()
    second.replay()
    assert torch.equal(answer, expected) and torch.equal(answer_of_small, expected_small), i
assert all(torch.equal(a.cpu(), b) for a, b in zip(model.parameters(), weights))
""",
        begin=BEGIN,
    )


def test_each_tag_sleeps_by_its_policy() -> None:
    run(
        """
blocks = {}
for tag in ("weights", "kv_cache", "runtime"):
    with sleeper.region(tag):
        blocks[tag] = torch.randn(32 * MIB, device="cuda")
copies = {tag: block.cpu() for tag, block in blocks.items()}
for tag in blocks:
    before = free()
    assert sleeper.sleep(tag, to_host=tag != "kv_cache") >= 128 * MIB
    assert free() >= before + 128 * MIB
    assert torch.cuda.memory_reserved() < 128 * MIB * 3
part = blocks["weights"][1000:3000]
assert torch.equal(sleeper.read(part), copies["weights"][1000:3000])
assert sleeper.read(blocks["kv_cache"]) is None
for tag in ("kv_cache", "weights", "runtime"):
    sleeper.wake(tag)
blocks["kv_cache"].zero_()
assert blocks["kv_cache"].sum().item() == 0
assert all(torch.equal(blocks[t].cpu(), copies[t]) for t in ("weights", "runtime"))
# Freed while it sleeps.
sleeper.sleep()
del part
blocks.clear()
sleeper.wake()
assert sleeper.usage().live == 0
before = free()
sleeper.release()
torch.cuda.empty_cache()
assert free() >= before + 3 * 128 * MIB
""",
        begin=BEGIN,
    )


def test_a_wake_without_memory_is_tried_again() -> None:
    run(
        """
with sleeper.region("weights"):
    weights = torch.arange(64 * MIB, device="cuda")
with sleeper.region("kv_cache"):
    cache = torch.zeros(free() // 2, dtype=torch.uint8, device="cuda")
sleeper.sleep(to_host={"kv_cache": False})
other = torch.empty(free() - 1024 * MIB, dtype=torch.uint8, device="cuda")
for _ in range(2):
    try:
        sleeper.wake()
    except torch.OutOfMemoryError as error:
        assert str(error).startswith("CUDA out of memory"), error
    else:
        raise AssertionError("there was memory")
    assert sleeper.is_asleep("weights") and sleeper.is_asleep("kv_cache")
del other
sleeper.wake()
assert torch.equal(weights.cpu(), torch.arange(64 * MIB))
""",
        begin=BEGIN,
    )


def test_a_compiled_model_sleeps_with_its_outputs() -> None:
    run(
        """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)).cuda()
fast = torch.compile(model, mode="reduce-overhead")
with torch.no_grad():
    for step in range(12):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.randn((8, 64)[step % 2], 256, device="cuda")
        y = fast(x)
        expected = y.clone()
        assert sleeper.sleep("cudagraph") > 0 or step < 6, step
        sleeper.wake()
        assert torch.equal(y, expected), step
        assert torch.allclose(y, model(x), atol=1e-4), step
        del y
""",
        begin=BEGIN,
    )


def test_a_worker_of_vllm_sleeps(engines: str) -> None:
    run(
        """
import importlib.metadata, torch
MIB = 1 << 20
# As vLLM loads plug-ins, twice.
points = importlib.metadata.entry_points(group="vllm.general_plugins")
for _ in range(2):
    for point in points:
        point.load()()
from vllm.device_allocator import get_mem_allocator_instance
from vllm.device_allocator.sleep_mode_backend import SleepModeBackendFactory
allocator = get_mem_allocator_instance()
backend = SleepModeBackendFactory.create_backend("rmm-rs")
assert allocator.get_current_usage() == 0
"""
        + SERVER
        + """
from contextlib import contextmanager
@contextmanager
def region(tag):
    if tag == "kv_cache":
        with allocator.use_memory_pool(tag="runtime"), allocator.use_memory_pool(tag=tag):
            yield
    else:
        with allocator.use_memory_pool(tag=tag):
            yield
model, cache = build(region)
with allocator.use_memory_pool(tag="runtime"):
    request = torch.randn(64, 1024, device="cuda")
warm_up(model, request, cache)
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    answer = step(model, request, cache)
saved = [p.detach().cpu() for p in model.parameters()]
graph.replay()
expected = answer.cpu()
for level in (1, 2, 1, 2):
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    backend.suspend(level)
    assert torch.cuda.mem_get_info()[0] >= before + 256 * MIB
    assert backend.state() == "SUSPENDED"
    backend.resume(["weights"])
    if level == 2:
        with torch.no_grad():
            for parameter, data in zip(model.parameters(), saved):
                parameter.copy_(data)
    backend.resume(["kv_cache"])
    assert backend.state() == "RUNNING"
    graph.replay()
    assert torch.equal(answer.cpu(), expected), level
backend.discard(("kv_cache",))
backend.resume()
graph.replay()
assert torch.equal(answer.cpu(), expected)
del model, cache, request, answer, graph
allocator.release_pools()
""",
        begin="",
        PYTHONPATH=engines,
        RMM_RS_TORCH="pool",
    )


def test_a_scheduler_of_sglang_pauses(engines: str) -> None:
    run(
        """
import importlib.metadata, torch
MIB = 1 << 20
for point in importlib.metadata.entry_points(group="sglang.srt.plugins"):
    point.load()()
import torch_memory_saver
saver = torch_memory_saver.torch_memory_saver
"""
        + SERVER
        + """
model, cache = build(lambda tag: saver.region(tag, enable_cpu_backup=tag == "weights"))
request = torch.randn(64, 1024, device="cuda")
warm_up(model, request, cache)
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), saver.cuda_graph(cuda_graph=graph, tag="cuda_graph"):
    answer = step(model, request, cache)
graph.replay()
expected = answer.cpu()
weight = model[0].weight
saved = weight.detach().cpu()
for _ in range(3):
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for tag in ("kv_cache", "weights", "cuda_graph"):
        saver.pause(tag)
    assert torch.cuda.mem_get_info()[0] >= before + 256 * MIB
    assert torch.equal(saver.get_cpu_backup(weight.detach()), saved)
    assert saver.get_cpu_backup(cache) is None
    for tag in ("cuda_graph", "weights", "kv_cache"):
        saver.resume(tag)
    graph.replay()
    assert torch.equal(answer.cpu(), expected)
saver.pause()
saver.resume()
graph.replay()
assert torch.equal(answer.cpu(), expected)
""",
        begin="",
        PYTHONPATH=engines,
        RMM_RS_TORCH="pool",
    )
