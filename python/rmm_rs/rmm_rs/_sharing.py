"""Pieces of exported memory travel by `multiprocessing`, which passes their descriptors."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

from rmm_rs._rmm import Piece


def _rebuild(file: Any, numbers: bytes, fabric: bytes | None) -> Piece:
    descriptor = -1 if file is None else file.detach()
    return Piece._from_parts(descriptor, numbers, fabric)


def _reduce(piece: Piece) -> tuple[Callable[..., Piece], tuple[Any, bytes, bytes | None]]:
    numbers, fabric = piece._parts()
    file = reduction.DupFd(piece.fileno()) if fabric is None else None
    return _rebuild, (file, numbers, fabric)


reduction.register(Piece, _reduce)
