"""The memory functions of the stand-in."""

from __future__ import annotations

from typing import Any

import torch.cuda

changed_to: list[Any] = []


def get_allocator_backend() -> str:
    """The name of the current allocator."""
    return str(torch.cuda.library.stand_in_backend().decode())


def change_current_allocator(allocator: Any) -> None:
    """Notes a pluggable allocator."""
    changed_to.append(allocator)
