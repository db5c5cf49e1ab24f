"""The pool to begin with."""

from __future__ import annotations

import os

from rmm_rs._rmm import BackingMemoryResource, PoolMemoryResource


def default_pool() -> PoolMemoryResource:
    """Makes a pool over virtual memory where the current device has it, and over `cudaMalloc`
    elsewhere. It has no limit, and holds no memory yet. If ``RMM_OOM_REPORT`` names a directory,
    its `oom_report` is there. Not in RMM."""
    directory = os.environ.get("RMM_OOM_REPORT") or None
    return PoolMemoryResource(BackingMemoryResource(), 0, oom_report=directory)
