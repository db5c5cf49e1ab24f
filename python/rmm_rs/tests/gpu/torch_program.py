"""A PyTorch program by the documented three lines:

`torch_program.py own|pool|default train|memory|limit|streams|uses|changes|unannounced`. Prints JSON.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import torch


def use_the_default() -> None:
    """The three lines alone: the allocator makes a pool."""
    from rmm_rs.allocators.torch import rmm_torch_allocator

    torch.cuda.memory.change_current_allocator(rmm_torch_allocator)


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


def change_resource(number: int) -> None:
    """Sets the device's resource to a new one, of another kind each time."""
    from rmm_rs import mr

    kinds = (
        lambda: mr.PoolMemoryResource(mr.CudaMemoryResource(), 0),
        mr.CudaAsyncMemoryResource,
        lambda: mr.PoolMemoryResource(mr.VirtualMemoryResource(), 0),
        lambda: mr.ArenaMemoryResource(mr.CudaMemoryResource(), "256MiB"),
    )
    mr.set_current_device_resource(kinds[number % len(kinds)]())


def uses(*, is_announced: bool, is_changed: bool) -> dict[str, Any]:
    """A tensor of the main stream is read on a side stream, which is late, and dropped at once. The
    main stream then gets a tensor of the same size and overwrites it: with the use announced, that
    must be other memory. In half of the rounds streams change their parts.
    """
    rounds, count = 80, 1 << 18
    main, side = torch.cuda.default_stream(), torch.cuda.Stream()
    results = []
    for number in range(rounds):
        if is_changed and number % 5 == 0:
            change_resource(number // 5)
        own, other = (main, side) if number % 2 == 0 else (side, main)
        with torch.cuda.stream(own):
            x = torch.full((count,), float(number), device="cuda")
        other.wait_stream(own)
        with torch.cuda.stream(other):
            torch.cuda._sleep(1_000_000)
            y = x * 2 + 1
        if is_announced:
            x.record_stream(other)
        del x
        with torch.cuda.stream(own):
            for _ in range(2):
                torch.full((count,), -1.0, device="cuda")
        results.append(y)
        if number % 16 == 15:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    pairs = enumerate(results)
    wrong = [number for number, y in pairs if not bool((y == 2.0 * number + 1.0).all())]
    return {"rounds": rounds, "wrong": len(wrong), "first": wrong[:8]}


def main() -> None:
    kind, name = sys.argv[1:]
    pool = use_our_pool() if kind == "pool" else None
    if kind == "default":
        use_the_default()
    programs = {
        "train": lambda: train(pool),
        "memory": lambda: memory(pool),
        "limit": lambda: limit(pool),
        "streams": lambda: streams(pool),
        "uses": lambda: uses(is_announced=True, is_changed=False),
        "changes": lambda: uses(is_announced=True, is_changed=True),
        "unannounced": lambda: uses(is_announced=False, is_changed=False),
    }
    print(json.dumps(programs[name]()))


if __name__ == "__main__":
    main()
