"""A CUDA graph with a sum over all ranks in it, as torchrun starts it."""

from __future__ import annotations

import sys
from typing import Any

import report
import torch
import torch.distributed as dist

MIB = report.MIB
REPLAYS = 50


def replayed_sums() -> dict[str, Any]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", torch.cuda.current_device())
    static = torch.zeros(MIB, device=device)

    def body() -> torch.Tensor:
        temporary = static * 2
        dist.all_reduce(temporary)
        return temporary + 1

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # NCCL's watchdog queries events in a thread of its own meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = body()
    for i in range(REPLAYS):
        static.fill_(float(i + rank))
        graph.replay()
        noise = [torch.full((MIB,), -1.0, device=device) for _ in range(4)]
        expected = 2 * (ranks * i + ranks * (ranks - 1) / 2) + 1
        if not (result == expected).all().item():
            raise RuntimeError(f"replay {i}: {result[0].item()}, not {expected}")
        del noise
    reserved = torch.cuda.memory_reserved()
    del graph, result
    torch.cuda.empty_cache()
    return {"rank": rank, "reserved": reserved, "reserved after": torch.cuda.memory_reserved()}


if __name__ == "__main__":
    sys.exit(report.of_rank("replayed sums", replayed_sums))
