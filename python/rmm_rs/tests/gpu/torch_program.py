"""A PyTorch program by the documented three lines:

`torch_program.py own|pool train|memory|limit|streams`. Prints JSON.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import torch


def use_our_pool() -> Any:
    """The three lines, and a pool whose bytes are counted."""
    from rmm_rs import mr
    from rmm_rs.allocators.torch import rmm_torch_allocator

    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "256MiB")
    statistics = mr.StatisticsResourceAdaptor(pool)
    mr.set_current_device_resource(statistics)
    torch.cuda.memory.change_current_allocator(rmm_torch_allocator)
    return statistics


def losses(steps: int) -> list[float]:
    """Training of a small convolutional network: batches change their sizes."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(512, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(1)
    found = []
    for step in range(steps):
        count = 16 + 8 * (step % 5)
        images = torch.randn(count, 3, 32, 32, generator=generator).cuda(non_blocking=True)
        labels = torch.randint(0, 10, (count,), generator=generator).cuda()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        found.append(loss.item())
    return found


def train(pool: Any) -> dict[str, Any]:
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    values = losses(20)
    return {"losses": values, "total": pool.allocation_counts.total_bytes if pool else None}


def memory(pool: Any) -> dict[str, Any]:
    """Bytes after each round of training, when all tensors are gone, and without PyTorch's own."""
    rounds = []
    for _ in range(3):
        losses(5)
        gc.collect()
        torch.cuda.synchronize()
        rounds.append(pool.allocation_counts.current_bytes)
    # What is left are cuBLAS's workspaces, which PyTorch keeps for each stream.
    torch._C._cuda_clearCublasWorkspaces()
    gc.collect()
    after = pool.allocation_counts.current_bytes
    tensor = torch.ones(1 << 20, device="cuda")
    live = pool.allocation_counts.current_bytes - after
    del tensor
    return {
        "rounds": rounds,
        "after": after,
        "live": live,
        "end": pool.allocation_counts.current_bytes,
        "peak": pool.allocation_counts.peak_bytes,
    }


def limit(pool: Any) -> dict[str, Any]:
    """More than the device has, twice, and what works after that."""
    _, total = torch.cuda.mem_get_info()
    errors = []
    for size in (2 * total, 1 << 50):
        try:
            torch.empty(size, dtype=torch.uint8, device="cuda")
        except (MemoryError, RuntimeError) as error:
            errors.append(
                [
                    type(error).__name__,
                    isinstance(error, (torch.OutOfMemoryError, MemoryError)),
                    str(error).splitlines()[0],
                ]
            )
    return {"errors": errors, "sum": torch.ones(1000, device="cuda").sum().item()}


def streams(pool: Any) -> dict[str, Any]:
    """Tensors that are used on two streams."""
    side = torch.cuda.Stream()
    total = torch.zeros(1 << 16, device="cuda")
    for number in range(50):
        x = torch.full((1 << 16,), float(number), device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
            x.record_stream(side)
        torch.cuda.current_stream().wait_stream(side)
        total += y
        del x
    return {"total": total.sum().item()}


def main() -> None:
    kind, name = sys.argv[1:]
    pool = use_our_pool() if kind == "pool" else None
    programs = {"train": train, "memory": memory, "limit": limit, "streams": streams}
    print(json.dumps(programs[name](pool)))


if __name__ == "__main__":
    main()
