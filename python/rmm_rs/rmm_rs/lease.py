"""Memory of an owner outside the process, which outlives it: `rmm serve`, on Linux. Not in RMM."""

from __future__ import annotations

import os
from typing import Literal

from rmm_rs._rmm import LeasedArray as LeasedArray, LeasedMemoryResource as LeasedMemoryResource

__all__ = ["LeasedArray", "LeasedMemoryResource", "connect"]


def connect(
    path: str | os.PathLike[str],
    lock: Literal["rw", "ro", "rw_or_ro"] = "rw_or_ro",
    *,
    timeout: float | None = None,
    answer_timeout: float = 10.0,
) -> LeasedMemoryResource:
    """Begins a session with the owner at a socket, and returns its memory as a resource.

    A session that writes allocates and `commit`s; one that reads finds arrays by `get`. The lock
    is held until the resource and all that uses it are gone.

    Parameters
    ----------
    path : str
        The socket, such as ``DIR/weights.sock`` of ``rmm serve --directory DIR --tag weights``.
    lock : str
        "rw" to write, which frees what was committed before; "ro" to read; "rw_or_ro" to read
        what is committed, or to write if nothing is.
    timeout : float, optional
        Seconds to wait for the owner to be there and for others to let go; by default it has to
        be there, and others are waited for without end.
    answer_timeout : float
        Seconds in which the owner answers a request, such as an allocation. After that the
        session is over.

    Raises
    ------
    ConnectionError
        If no owner answers.
    TimeoutError
        If the lock was not granted in time; the text names the processes that hold it.
    """
    return LeasedMemoryResource(path, lock, timeout=timeout, answer_timeout=answer_timeout)
