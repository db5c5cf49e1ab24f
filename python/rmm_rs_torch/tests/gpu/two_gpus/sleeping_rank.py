"""One rank sleeps while the other works, as torchrun starts it."""

from __future__ import annotations

import sys
from typing import Any

import report
import rmm_rs.torch
import torch
import torch.distributed as dist

MIB = report.MIB
ROUNDS = 5


def one_rank_sleeps() -> dict[str, Any]:
    rank = dist.get_rank()
    device = torch.device("cuda", torch.cuda.current_device())
    sleeper = rmm_rs.torch.Sleeper()
    torch.manual_seed(rank)
    with sleeper.region("weights"):
        weights = torch.randn(64 * MIB, device=device)
    request = torch.zeros(MIB, device=device)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        answer = weights[:MIB] * request
    kept = weights[:MIB].cpu()
    asleep = 0
    for i in range(ROUNDS):
        # NCCL's collectives are over: nothing uses the memory that sleeps.
        torch.cuda.synchronize()
        dist.barrier()
        if rank == i % 2:
            free = torch.cuda.mem_get_info()[0]
            sleeper.sleep()
            asleep = torch.cuda.mem_get_info()[0] - free
            if asleep < 256 * MIB:
                raise RuntimeError(f"{asleep} bytes came back of {256 * MIB}")
            sleeper.wake()
        else:
            work = weights[: 8 * MIB] * 2
            if not torch.equal(work[:MIB].cpu(), kept * 2):
                raise RuntimeError(f"round {i}: the rank that works has other weights")
        request.fill_(float(i))
        graph.replay()
        if not torch.equal(answer.cpu(), kept * i):
            raise RuntimeError(f"round {i}: the graph has another result")
        total = answer.sum()
        alone = total.clone()
        dist.all_reduce(total)
        others = total - alone
        dist.all_reduce(others)
        if not torch.allclose(others, total):
            raise RuntimeError(f"round {i}: the sums of the ranks differ")
    return {"rank": rank, "came back": asleep}


if __name__ == "__main__":
    sys.exit(report.of_rank("sleeps in turn", one_rank_sleeps))
