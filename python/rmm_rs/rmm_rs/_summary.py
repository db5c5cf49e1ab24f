"""What resources hold, as a table for people. Not in RMM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmm_rs.mr import DeviceMemoryResource, get_current_device_resource

#: The rows of a pool: what they say, and the statistics of now, at the peak, and counted.
_ROWS = (
    ("live", "live_bytes", "peak_live_bytes"),
    ("reserved", "reserved_bytes", "peak_reserved_bytes"),
    ("cached by threads", "cached_bytes", None),
    ("largest free block", "largest_free_bytes", None),
    ("kept for graphs", "graph_bytes", None),
    ("asleep", "asleep_bytes", None),
)
_COUNTS = (
    ("allocations", "allocations"),
    ("of them from caches", "cached_allocations"),
    ("frees", "frees"),
    ("upstream allocations", "upstream_allocations"),
    ("upstream frees", "upstream_frees"),
    ("waits of a stream", "stream_waits"),
    ("waits of the host", "host_waits"),
)
_WIDTH = 60


def _stack(resource: Any) -> Iterator[Any]:
    """A resource and those below it, the top first."""
    while resource is not None:
        yield resource
        resource = getattr(resource, "upstream_mr", None)


def _bytes(number: int) -> str:
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{number} B" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit has no end")


def memory_summary(resource: DeviceMemoryResource | None = None) -> str:
    """What a resource and those below it hold, as a table of at most 60 columns.

    It counts without a driver call, and allocations of other threads go on meanwhile.

    Parameters
    ----------
    resource : DeviceMemoryResource, optional
        By default the current device's resource.

    Examples
    --------
    >>> import rmm_rs
    >>> from rmm_rs import mr
    >>> pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    >>> block = pool.allocate(4096)
    >>> print(rmm_rs.memory_summary(pool).splitlines()[3])
    live                              4.0 KiB        4.0 KiB
    >>> pool.deallocate(block, 4096)
    """
    if resource is None:
        resource = get_current_device_resource()
    lines = resource.describe().splitlines()
    lines = [line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in lines[:1]]
    for part in _stack(resource):
        if hasattr(part, "usage"):
            lines += _tags(part.usage())
        elif hasattr(part, "statistics"):
            lines += _pool(part.statistics())
    return "\n".join(lines) + "\n"


def _pool(counts: dict[str, Any]) -> list[str]:
    lines = ["─" * 56, f"{'pool':26}{'now':>15}{'peak':>15}"]
    for name, now, peak in _ROWS:
        if counts.get(now) or peak:
            at_peak = _bytes(counts[peak]) if peak else ""
            lines.append(f"{name:26}{_bytes(counts[now]):>15}{at_peak:>15}".rstrip())
    lines += [f"{name:26}{counts[key]:>15,}" for name, key in _COUNTS if key in counts]
    return lines


def _tags(usage: dict[str, dict[str, int]]) -> list[str]:
    lines = ["─" * 56, f"{'tag':26}{'now':>15}{'peak':>15}"]
    largest = sorted(usage.items(), key=lambda item: -item[1]["peak_bytes"])
    for name, held in largest:
        short = name if len(name) <= 26 else f"{name[:25]}…"
        now, peak = _bytes(held["current_bytes"]), _bytes(held["peak_bytes"])
        lines.append(f"{short:26}{now:>15}{peak:>15}")
    return lines
