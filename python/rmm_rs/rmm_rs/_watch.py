"""Programs that let themselves be watched. Not in RMM."""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Mapping

from rmm_rs import _rmm
from rmm_rs.mr import DeviceMemoryResource


def watch(resources: Mapping[str, DeviceMemoryResource] | None = None) -> None:
    """Lets the program ``rmm watch PID`` show what this process holds, until it ends.

    It opens a Unix socket that only this user and root can use, with one thread that answers.
    Allocations never wait for it. A child of ``fork`` is not watched unless it calls this itself.
    With ``RMM_WATCH=1`` in the environment it is called when the package is imported.

    Parameters
    ----------
    resources : mapping of str to DeviceMemoryResource, optional
        Pools to show under these names, besides those of the current device resources. They are
        not kept alive.

    Raises
    ------
    OSError
        If the socket cannot be opened, or its folder is not this user's alone.
    """
    for name, resource in (resources or {}).items():
        _rmm._register(name, resource)
    _rmm._watch()
    atexit.unregister(_rmm._end_watching)
    atexit.register(_rmm._end_watching)


def _watch_if_asked() -> None:
    """A program that cannot be watched runs all the same."""
    if os.environ.get("RMM_WATCH", "0") not in ("", "0"):
        try:
            watch()
        except OSError as error:
            warnings.warn(f"RMM_WATCH: {error}", RuntimeWarning, stacklevel=2)
