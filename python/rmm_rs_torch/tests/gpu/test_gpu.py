"""Programs of the real PyTorch on a GPU, each in a process of its own: run.sh."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if os.environ.get("RMM_DRIVER") != "cuda":
    pytest.skip("needs a GPU: run.sh", allow_module_level=True)

BEGIN = """
import torch, rmm_rs, rmm_rs.torch
rmm_rs.torch.install()
MIB = 1 << 20
"""


def run(code: str, begin: str = BEGIN, **variables: str) -> str:
    """Runs a program, and returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", begin + code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **variables},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_backend_is_ours() -> None:
    run("""
assert torch.cuda.memory.get_allocator_backend() == "rmm-rs"
x = torch.ones(1000, device="cuda")
assert torch.cuda.memory_allocated() == 4096, torch.cuda.memory_allocated()
assert x.sum().item() == 1000
""")


def test_a_variable_installs_it() -> None:
    code = "import torch; print(torch.cuda.memory.get_allocator_backend())"
    assert run(code, begin="", RMM_RS_TORCH="1") == "rmm-rs\n"
    assert run(code, begin="") == "native\n"


STATISTICS = """
import torch
if {ours}:
    import rmm_rs.torch
    rmm_rs.torch.install()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())
side = torch.cuda.Stream()
for step in range(5):
    x = torch.randn(256, 512, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    x.record_stream(side)
    y.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_stream(side)
    loss = model(y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 1:
        torch.cuda.reset_peak_memory_stats()
print(round(loss.item(), 4))
del x, y, loss
torch.cuda.synchronize()
torch.cuda.empty_cache()
stats = torch.cuda.memory_stats()
names = ("allocation", "allocated_bytes", "requested_bytes", "active", "active_bytes")
for name, value in sorted(stats.items()):
    if name.split(".")[0] in names and not (name.startswith(("active", "requested")) and "peak" in name):
        print(name, value)
"""


def test_statistics_of_a_training_equal_native() -> None:
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    native = run(STATISTICS.format(ours=False), begin="", **variables)
    assert run(STATISTICS.format(ours=True), begin="") == native


def test_recorded_streams_keep_memory() -> None:
    run("""
side = torch.cuda.Stream()
wrong = 0
for i in range(60):
    x = torch.full((MIB,), i, dtype=torch.int32, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(2_000_000)
        y = x.clone()
    x.record_stream(side)
    del x
    z = torch.full((MIB,), -1, dtype=torch.int32, device="cuda")
    side.synchronize()
    wrong += int((y != i).any().item())
    del y, z
assert wrong == 0, wrong
""")


def test_graphs_replay() -> None:
    run("""
static = torch.zeros(MIB, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    temporary = static * 2
    result = temporary + 1
    del temporary
# Other work in between: it must not get the graph's memory.
for i in range(5):
    noise = [torch.full((MIB,), 7.0, device="cuda") for _ in range(20)]
    static.fill_(i)
    graph.replay()
    assert (result == 2 * i + 1).all().item(), i
    del noise
second = torch.cuda.CUDAGraph()
with torch.cuda.graph(second, pool=graph.pool()):
    other = result * 3
second.replay()
torch.cuda.synchronize()
assert (other == 27).all().item()
reserved = torch.cuda.memory_reserved()
del graph, second, result, other
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < reserved
""")


def test_graphed_callables_train() -> None:
    run("""
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 64, device="cuda"),))
x = torch.randn(32, 64, device="cuda")
loss = graphed(x).square().mean()
loss.backward()
eager = torch.nn.functional.linear(
    torch.relu(torch.nn.functional.linear(x, model[0].weight, model[0].bias)), model[2].weight, model[2].bias)
assert torch.allclose(graphed(x), eager, atol=1e-5)
assert all(p.grad is not None for p in model.parameters())
""")


def test_reduce_overhead_equals_eager() -> None:
    run("""
import torch._inductor.config
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).cuda()
compiled = torch.compile(model, mode="reduce-overhead")
for size in (8, 16, 8, 24, 16, 8, 24) * 3:
    torch.compiler.cudagraph_mark_step_begin()
    x = torch.randn(size, 64, device="cuda", requires_grad=True)
    y = compiled(x)
    y.square().mean().backward()
    grad = x.grad.clone()
    x2 = x.detach().clone().requires_grad_()
    expected = model(x2)
    expected.square().mean().backward()
    assert torch.allclose(y, expected, atol=1e-5), size
    assert torch.allclose(grad, x2.grad, atol=1e-5), size
    del y, expected
    # They are outputs of a graph, which the next step overwrites.
    model.zero_grad(set_to_none=True)
""")


def test_mem_pools() -> None:
    run("""
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    x = torch.ones(4 * MIB, device="cuda")
snapshot = torch.cuda.memory_snapshot(pool.id) if hasattr(torch.cuda, "memory_snapshot") else []
y = torch.ones(MIB, device="cuda")
assert pool.use_count() == 1, pool.use_count()
assert x.sum().item() == 4 * MIB
reserved = torch.cuda.memory_reserved()
del x, pool
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < reserved
""")


def test_out_of_memory_is_pytorchs_error() -> None:
    run("""
torch.cuda.set_per_process_memory_fraction(0.5)
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    assert str(error).startswith("CUDA out of memory. Tried to allocate 1048576.00 GiB. GPU 0"), error
else:
    raise AssertionError("allocated")
assert torch.cuda.memory_stats()["num_ooms"] == 1
total = torch.cuda.get_device_properties(0).total_memory
try:
    torch.empty(int(total * 0.6), dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
else:
    raise AssertionError("allocated")
torch.cuda.set_per_process_memory_fraction(1.0)
x = torch.empty(int(total * 0.6), dtype=torch.uint8, device="cuda")
del x
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < MIB * 64
""")


def test_histories_and_snapshots() -> None:
    run("""
import pickle, tempfile, os
torch.cuda.memory._record_memory_history()
x = torch.ones(MIB, device="cuda")
y = x * 2
del x
path = os.path.join(tempfile.mkdtemp(), "s.pickle")
torch.cuda.memory._dump_snapshot(path)
with open(path, "rb") as file:
    snapshot = pickle.load(file)
actions = [entry["action"] for entry in snapshot["device_traces"][0]]
assert actions.count("alloc") >= 2 and "free_completed" in actions, actions
assert any(entry["frames"] for entry in snapshot["device_traces"][0])
allocated = sum(segment["allocated_size"] for segment in snapshot["segments"])
assert allocated == torch.cuda.memory_allocated()
assert "requested" in torch.cuda.memory_summary().lower()
""")


def test_threads_share_it() -> None:
    run("""
import threading
def work(seed):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(300):
            x = torch.full((1000 * (1 + (seed * 7 + i) % 50),), float(i), device="cuda")
            assert (x + 1).sum().item() == (i + 1) * x.numel()
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
torch.cuda.synchronize()
assert torch.cuda.memory_allocated() == 0
""")


def test_accelerator_functions_answer_for_it() -> None:
    run("""
x = torch.ones(MIB, device="cuda")
assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
torch.accelerator.empty_cache()
""")


def test_tensors_in_globals_end_quietly() -> None:
    assert (
        run("""
x = torch.ones(MIB, device="cuda")
import atexit
atexit.register(lambda: print("end", x.numel()))
""")
        == f"end {1 << 20}\n"
    )


COMPILED = """
import torch, torch._dynamo.config, torch._inductor.config
if {ours}:
    import rmm_rs.torch
    rmm_rs.torch.install()
torch._dynamo.config.cache_size_limit = 256
torch._inductor.config.triton.cudagraph_dynamic_shape_warn_limit = None
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 512)).cuda()

def step(data, twice):
    out = model(data)
    return model(out) if twice else out

# One compilation, and a graph for each shape.
fast = torch.compile(step, mode="reduce-overhead", dynamic=True)
with torch.no_grad():
    for _ in range(3):
        for rows in range(8, 808, 8):
            data = torch.randn(rows, 512, device="cuda")
            for twice in (False, True):
                torch.compiler.cudagraph_mark_step_begin()
                got = fast(data, twice).clone()
                assert torch.allclose(got, step(data, twice), atol=1e-3), rows
print(torch.cuda.max_memory_reserved())
"""


def test_graph_trees_of_a_hundred_shapes_equal_eager(
    record_property: Callable[[str, int], None],
) -> None:
    for allocator, ours in (("native", False), ("rmm-rs", True)):
        record_property(
            f"reserved_{allocator}", int(run(COMPILED.format(ours=ours), begin=""))
        )


def test_a_graph_forks_to_a_second_stream() -> None:
    run("""
first = torch.ones(MIB, device="cuda")
side = torch.cuda.Stream()

def body():
    current = torch.cuda.current_stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        left = (first * 3 + 1) * 2
    right = (first * 5 + 2) * 4
    current.wait_stream(side)
    left.record_stream(current)
    return left + right

warm = torch.cuda.Stream()
warm.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(warm):
    body()
torch.cuda.current_stream().wait_stream(warm)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    result = body()
for value in range(1, 20):
    first.fill_(value)
    graph.replay()
    noise = [torch.full((MIB,), -1.0, device="cuda") for _ in range(8)]
    assert torch.equal(result, (first * 3 + 1) * 2 + (first * 5 + 2) * 4), value
    del noise
""")


def test_statistics_before_the_first_tensor_leave_the_pool_alone() -> None:
    run("""
torch.cuda.init()
assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == 0
x = torch.ones(MIB, device="cuda")
assert torch.cuda.memory_stats()["reserved_bytes.all.current"] >= 4 * MIB
""")


SHARED = """
import torch, torch.multiprocessing

def add_one(pipe):
    import rmm_rs.torch
    rmm_rs.torch.install({spec})
    for got in iter(pipe.recv, None):
        got += 1
        torch.cuda.synchronize()
        pipe.send(got.sum().item())
        del got

if __name__ == "__main__":
    import rmm_rs.torch
    rmm_rs.torch.install({spec})
    context = torch.multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=add_one, args=(there,))
    child.start()
    before = torch.ones(1000, device="cuda")
    for count in (100, 1 << 20, 50 << 20):
        x = torch.full((count,), 3, dtype=torch.int32, device="cuda")
        for part in (x, x[count // 2 :]):
            expected = (part + 1).sum().item()
            here.send(part)
            assert here.recv() == expected == part.sum().item()
    del x, part
    x = torch.full((1 << 20,), 3, dtype=torch.int32, device="cuda")
    here.send(x)
    assert here.recv() == 4 << 20
    here.send(None)
    child.join()
    assert child.exitcode == 0
    assert before.sum().item() == 1000
"""


@pytest.mark.parametrize("spec", ["None", '"pool(cuda)"'])
def test_processes_share_tensors(tmp_path: Path, spec: str) -> None:
    program = tmp_path / "share.py"
    program.write_text(SHARED.format(spec=spec))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
