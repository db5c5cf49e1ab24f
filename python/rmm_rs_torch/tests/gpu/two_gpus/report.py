"""How a program tells its results to the runner: a line of JSON for each."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from typing import Any

MIB = 1 << 20


def row(name: str, passed: bool = True, why: str = "", **figures: Any) -> None:
    """Prints a result. One write: lines of several processes do not mix."""
    text = {"name": name, "passed": passed, "why": why, "figures": figures}
    os.write(1, f"\nRESULT {json.dumps(text)}\n".encode())


def attempt(name: str, function: Callable[[], dict[str, Any] | None]) -> bool:
    """Runs a check, whose figures it returns, and prints the result."""
    try:
        figures = function()
    except Exception as error:
        traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        lines = (str(error).strip() or f"{place.line} (line {place.lineno})").splitlines()
        row(name, False, f"{type(error).__name__}: {lines[0]}")
        return False
    row(name, **(figures or {}))
    return True


def of_rank(name: str, function: Callable[[], dict[str, Any] | None]) -> int:
    """Runs a check as a rank that torchrun has started. Returns the exit status."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    allocator()
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    passed = attempt(f"{name}, rank {os.environ['RANK']}", function)
    if passed:
        dist.destroy_process_group()
    return 0 if passed else 1


def allocator() -> str:
    """The allocator that the runner wants. Fails if PyTorch has another backend."""
    import torch

    found = torch.cuda.memory.get_allocator_backend()
    wanted = os.environ.get("WANTED_BACKEND", found)
    if found != wanted:
        raise RuntimeError(f"PyTorch's allocator is {found}, not {wanted}")
    return os.environ.get("WANTED_ALLOCATOR", found)
