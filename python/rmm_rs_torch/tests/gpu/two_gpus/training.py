"""Training on two devices, one process each, as torchrun starts it.

    training.py ddp|fsdp

Each rank prints the losses of a perceptron and of a small transformer, milliseconds a step, and the
most bytes that were live and reserved.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import report
import torch
import torch.distributed as dist
from torch import nn

STEPS, UNCOUNTED = 20, 5


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = (1024, 4096, 4096, 1024)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(a, b), nn.GELU()) for a, b in zip(sizes, sizes[1:])
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x

    @staticmethod
    def batch(step: int, device: torch.device) -> torch.Tensor:
        return torch.randn(256 + 32 * (step % 5), 1024, device=device)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8192, 512)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
            for _ in range(4)
        )
        self.head = nn.Linear(512, 8192)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    @staticmethod
    def batch(step: int, device: torch.device) -> torch.Tensor:
        return torch.randint(0, 8192, (4 + step % 5, 128 + 64 * (step % 3)), device=device)


def distributed(model: nn.Module, kind: str, device: torch.device) -> nn.Module:
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def train(make: type[Perceptron | Transformer], kind: str) -> dict[str, Any]:
    rank = dist.get_rank()
    device = torch.device("cuda", torch.cuda.current_device())
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(7)
    model = distributed(make().to(device), kind, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses, times = [], []
    torch.manual_seed(100 + rank)
    for step in range(STEPS):
        batch = make.batch(step, device)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = model(batch).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        losses.append(loss.item())
    if not all(value == value for value in losses):
        raise RuntimeError(f"a loss is no number: {losses}")
    return {
        "rank": rank,
        "losses": losses,
        "ms": round(1000 * statistics.median(times[UNCOUNTED:]), 3),
        "live": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
    }


def main() -> int:
    kind = sys.argv[1]
    rank, device = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    report.allocator()
    # Sums in one order, so that losses of all allocators are equal.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    dist.init_process_group("nccl", device_id=torch.device("cuda", device))
    programs: dict[str, Callable[[], dict[str, Any]]] = {
        make.__name__.lower(): lambda make=make: train(make, kind)
        for make in (Perceptron, Transformer)
    }
    passed = True
    for name, program in programs.items():
        passed = report.attempt(f"{name}, rank {rank}", program)
        if not passed:
            # The other rank may wait for this one: torchrun ends it.
            break
    if passed:
        dist.destroy_process_group()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
