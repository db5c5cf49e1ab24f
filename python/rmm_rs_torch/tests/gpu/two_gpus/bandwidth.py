"""GB/s of copies of 256 MiB between devices and within one."""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import report
import torch

BYTES = 256 * report.MIB
COPIES, ROUNDS = 20, 5


def bandwidth(source: int, target: int) -> dict[str, Any]:
    x = torch.empty(BYTES, dtype=torch.uint8, device=f"cuda:{source}").fill_(7)
    y = torch.empty(BYTES, dtype=torch.uint8, device=f"cuda:{target}")
    y.copy_(x)
    rates = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize(source)
        torch.cuda.synchronize(target)
        begin = time.perf_counter()
        for _ in range(COPIES):
            y.copy_(x, non_blocking=True)
        torch.cuda.synchronize(source)
        torch.cuda.synchronize(target)
        rates.append(COPIES * BYTES / (time.perf_counter() - begin) / 1e9)
    if not (y == 7).all().item():
        raise RuntimeError("the copy is wrong")
    return {"GB/s": round(statistics.median(rates), 1), "least": round(min(rates), 1)}


def main() -> int:
    report.allocator()
    pairs = ((0, 1), (1, 0), (0, 0))
    results = [
        report.attempt(f"cuda:{a} to cuda:{b}", lambda a=a, b=b: bandwidth(a, b)) for a, b in pairs
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
