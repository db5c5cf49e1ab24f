"""Tensors of both devices between two processes, by `torch.multiprocessing`."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection
from typing import Any

import report
import torch
import torch.multiprocessing as multiprocessing

MIB = report.MIB
#: Seconds for an answer.
LIMIT = 60


def child(connection: Connection) -> None:
    """Adds 1 to what it gets, in place, until it gets nothing."""
    report.allocator()
    while True:
        got = connection.recv()
        if got is None:
            break
        got += 1
        torch.cuda.synchronize(got.device)
        connection.send(got.sum().item())
        del got
    connection.close()


def shared(device: str) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=child, args=(there,), daemon=True)
    process.start()
    # So that its end is seen here.
    there.close()
    try:
        for count in (100, 5 * MIB):
            before = torch.ones(1000, device=device)
            x = torch.full((count,), 3.0, device=device)
            for part in (x, x[count // 2 :]):
                expected = (part + 1).sum().item()
                torch.cuda.synchronize(device)
                here.send(part)
                if not here.poll(LIMIT):
                    raise RuntimeError("the other process does not answer")
                got = here.recv()
                if got != expected or part.sum().item() != expected:
                    raise RuntimeError(f"{got} there, {part.sum().item()} here, not {expected}")
            if before.sum().item() != 1000:
                raise RuntimeError("another tensor has changed")
        here.send(None)
        process.join(LIMIT)
        if process.exitcode != 0:
            raise RuntimeError(f"the other process ended with {process.exitcode}")
    finally:
        if process.is_alive():
            process.kill()
    return {}


def main() -> int:
    report.allocator()
    devices = [f"cuda:{index}" for index in range(2)]
    results = [
        report.attempt(f"shared, {device}", lambda device=device: shared(device))
        for device in devices
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
