"""The pool to begin with."""

from __future__ import annotations

from rmm_rs._rmm import BackingMemoryResource, PoolMemoryResource


def default_pool() -> PoolMemoryResource:
    """Makes a pool over virtual memory where the current device has it, and over `cudaMalloc`
    elsewhere. It has no limit, and holds no memory yet. Not in RMM."""
    return PoolMemoryResource(BackingMemoryResource(), 0)
