"""Graph trees of Inductor, on functions that copy: they checkpoint and restore private pools."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import torch

if sys.argv[1] == "rmm-rs":
    import rmm_rs.torch

    rmm_rs.torch.install()

from torch._inductor import config, cudagraph_trees  # noqa: E402

config.triton.fast_path_cudagraph_asserts = True
config.triton.slow_path_cudagraph_asserts = True
# It launches a kernel.
torch._foreach_copy_ = lambda to, of: [a.copy_(b) for a, b in zip(to, of, strict=True)]


def first(inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    x = inputs.pop()
    temporary = x.clone()
    y = temporary.clone()
    del temporary
    return (y, y.clone())


def second(inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    x = inputs.pop()
    temporary = x.clone()
    y = temporary.clone()
    return (y.clone(),)


compiled: dict[Any, Callable[[list[torch.Tensor]], Any]] = {}


def call(function: Any, x: torch.Tensor, outputs: int) -> Any:
    """Calls a function for a size: recorded first, then replayed."""
    key = (function, x.numel())
    if key in compiled:
        return compiled[key]([x])
    compiled[key], result = cudagraph_trees.cudagraphify(
        function,
        [x],
        (),
        device_index=0,
        is_backward=False,
        is_inference=True,
        stack_traces=("here",) * outputs,
    )
    return result


for step in range(60):
    torch.compiler.cudagraph_mark_step_begin()
    values = torch.arange((1000, 300_000, 3000)[step % 3]).add_(step)
    x = values.cuda()
    y, z = call(first, x, 2)
    if step % 4 != 1:
        (out,) = call(second, y, 1)
        assert torch.equal(out.cpu(), values), step
        del out
    assert torch.equal(z.cpu(), values), step
    del x, y, z
torch.cuda.synchronize()
print("allocated", torch.cuda.memory_allocated())
cudagraph_trees.reset_cudagraph_trees()
gc.collect()
torch.cuda.empty_cache()
print("end", torch.cuda.memory_allocated(), torch.cuda.memory_reserved())
