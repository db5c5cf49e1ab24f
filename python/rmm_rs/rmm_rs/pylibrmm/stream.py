"""Streams."""

from enum import IntEnum

from rmm_rs._rmm import (
    DEFAULT_STREAM,
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Stream,
    _OwningStream,
)

__all__ = [
    "DEFAULT_STREAM",
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "CudaStreamFlags",
    "Stream",
    "_OwningStream",
]


class CudaStreamFlags(IntEnum):
    """How a new stream behaves."""

    #: It waits for the legacy default stream, which waits for it.
    SYNC_DEFAULT = 0
    #: It does not.
    NON_BLOCKING = 1
