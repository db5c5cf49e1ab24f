"""Memory that sleeps, with graphs of the real PyTorch: also graph trees of Inductor, whose outputs
are no blocks of the pool while the program has them."""

from __future__ import annotations

from typing import Any

import torch

import rmm_rs.torch

rmm_rs.torch.install("pool(virtual)")

from torch._inductor import cudagraph_trees  # noqa: E402

MIB = 1 << 20
# It launches a kernel.
torch._foreach_copy_ = lambda to, of: [a.copy_(b) for a, b in zip(to, of, strict=True)]

sleeper = rmm_rs.torch.Sleeper()
expected = torch.arange(MIB, dtype=torch.int32)
with sleeper.region("weights", backup=True):
    weights = expected.cuda()
with sleeper.region("kv_cache"):
    cache = torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
static = torch.zeros(1000, dtype=torch.int32).cuda()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    temporary = static.clone()
    result = temporary.clone()
    del temporary
    try:
        sleeper.sleep("weights")
    except RuntimeError as error:
        assert "captured" in str(error), error
    else:
        raise AssertionError("it slept in a capture")


def replay(value: int) -> None:
    static.copy_(torch.full((1000,), value, dtype=torch.int32))
    graph.replay()
    torch.cuda.synchronize()
    assert (result.cpu() == value).all(), value


for step in range(100):
    replay(step)
    reserved = torch.cuda.memory_reserved()
    free = torch.cuda.mem_get_info()[0]
    slept = sleeper.sleep(to_host={"kv_cache": False})
    assert torch.cuda.mem_get_info()[0] >= free + 12 * MIB
    assert torch.cuda.memory_reserved() <= reserved - slept
    backup = sleeper.read(weights[1000:2000])
    assert torch.equal(backup, expected[1000:2000]) and backup.dtype == torch.int32
    assert sleeper.read(cache) is None and sleeper.read(static) is None
    assert sleeper.wake() == slept
    assert (result.cpu() == step).all()
    replay(step + 7)
    assert torch.equal(weights.cpu(), expected)
assert sleeper.read(weights) is None
# A graph that is gone, and tensors that are freed asleep.
sleeper.sleep()
del graph, result, weights
sleeper.wake()
sleeper.release("weights")
torch.cuda.empty_cache()
assert sleeper.usage("cudagraph") == (0, 0, 0)


def copies(inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    x = inputs.pop()
    y = x.clone().clone()
    return (y, y.clone())


compiled: dict[int, Any] = {}
for step in range(20):
    torch.compiler.cudagraph_mark_step_begin()
    values = torch.arange((1000, 300_000)[step % 2]).add_(step)
    x = values.cuda()
    if len(values) in compiled:
        y, z = compiled[len(values)]([x])
    else:
        compiled[len(values)], (y, z) = cudagraph_trees.cudagraphify(
            copies,
            [x],
            (),
            device_index=0,
            is_backward=False,
            is_inference=True,
            stack_traces=("here", "here"),
        )
    assert sleeper.sleep() > 0
    sleeper.wake()
    assert torch.equal(y.cpu(), values) and torch.equal(z.cpu(), values), step
    del x, y, z

try:
    with sleeper.region("large"):
        large = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    sleeper.discard("large")
    free = torch.cuda.mem_get_info()[0]
    other = torch.empty(free - 32 * MIB, dtype=torch.uint8, device="cuda")
    sleeper.wake()
except torch.OutOfMemoryError as error:
    assert sleeper.is_asleep("large") and str(error).startswith("CUDA out of memory"), error
else:
    raise AssertionError("there was memory")
del other
assert sleeper.wake() == 64 * MIB
print("end")
