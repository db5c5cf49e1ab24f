"""A pool that sleeps for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rmm_rs._rmm import DeviceMemoryResource, PoolMemoryResource


@contextmanager
def asleep(
    pool: PoolMemoryResource,
    contents: str = "discard",
    *,
    wait: bool = False,
    host_mr: DeviceMemoryResource | None = None,
) -> Iterator[None]:
    """A context manager: the pool sleeps in the block, and is awake after it. Not in RMM.

    The arguments, and what the caller promises, are those of `PoolMemoryResource.sleep`.
    """
    pool.sleep(contents, wait=wait, host_mr=host_mr)
    try:
        yield
    finally:
        pool.wake()
