"""Counters of memory, and a profiler of functions and blocks of code.

Both need `enable_statistics`: without it they do nothing, or return None.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, Literal, ParamSpec, TypeVar

from rmm_rs import mr

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Statistics:
    """Bytes and allocations: those now, the most at once, and all so far.

    Counts are negative if memory was freed that was allocated before the counters began.
    """

    current_bytes: int
    current_count: int
    peak_bytes: int
    peak_count: int
    total_bytes: int
    total_count: int

    def __getitem__(self, name: str) -> int:
        """A figure by its name, as Dask-CUDA asks for it."""
        if name not in (field.name for field in fields(self)):
            raise KeyError(name)
        figure: int = getattr(self, name)
        return figure


def _top() -> mr.StatisticsResourceAdaptor | None:
    """The current device's adaptor, if its resource is one."""
    resource = mr.get_current_device_resource()
    if isinstance(resource, mr.StatisticsResourceAdaptor):
        return resource
    return None


def enable_statistics() -> None:
    """Counts from now on, by an adaptor over the current device's resource.

    Does nothing if the resource is such an adaptor.
    """
    if _top() is None:
        resource = mr.get_current_device_resource()
        mr.set_current_device_resource(mr.StatisticsResourceAdaptor(resource))


def get_statistics() -> Statistics | None:
    """The counters of the top level, or None."""
    top = _top()
    return None if top is None else top.allocation_counts


def push_statistics() -> Statistics | None:
    """Begins a level with counters of 0, and returns those before it, or None."""
    top = _top()
    return None if top is None else top.push_counters()


def pop_statistics() -> Statistics | None:
    """Ends a level, which is added to the one below, and returns its counters, or None."""
    top = _top()
    return None if top is None else top.pop_counters()


@contextmanager
def statistics() -> Iterator[None]:
    """Counts inside: a level of its own if statistics are enabled, else enables them meanwhile.

    Raises
    ------
    ValueError
        If the current resource is another one at the end.
    """
    before = mr.get_current_device_resource()
    was_enabled = push_statistics() is not None
    if not was_enabled:
        enable_statistics()
    inside = mr.get_current_device_resource()
    try:
        yield
    finally:
        if mr.get_current_device_resource() is not inside:
            raise ValueError(
                "the current memory resource was changed while in the statistics context"
            )
        if was_enabled:
            pop_statistics()
        else:
            mr.set_current_device_resource(before)


class ProfilerRecords:
    """What profilers measured, by name."""

    @dataclass
    class MemoryRecord:
        """All runs of one function or block: their number, the sum of their bytes, and the
        highest of their peaks."""

        num_calls: int = 0
        memory_total: int = 0
        memory_peak: int = 0

        def add(self, memory_total: int, memory_peak: int) -> None:
            """Adds a run."""
            self.num_calls += 1
            self.memory_total += memory_total
            self.memory_peak = max(self.memory_peak, memory_peak)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, ProfilerRecords.MemoryRecord] = {}

    def add(self, name: str, data: Statistics) -> None:
        """Adds a run under a name. Any thread may call it."""
        with self._lock:
            record = self._by_name.setdefault(name, self.MemoryRecord())
            record.add(memory_total=data.total_bytes, memory_peak=data.peak_bytes)

    @property
    def records(self) -> dict[str, MemoryRecord]:
        """The records, by name."""
        with self._lock:
            return dict(self._by_name)

    def report(
        self,
        ordered_by: Literal["num_calls", "memory_peak", "memory_total"] = "memory_peak",
    ) -> str:
        """The records as a table, the largest first."""
        lines = ["Memory Profiling", "================", ""]
        records = sorted(
            self.records.items(),
            key=lambda item: getattr(item[1], ordered_by),
            reverse=True,
        )
        if not records:
            return "\n".join([*lines, "No data, maybe profiling wasn't enabled?"])
        lines += [
            "Legends:",
            "  ncalls       - how often the function or block ran",
            "  memory_peak  - the most bytes that were allocated at once in a run",
            "  memory_total - the bytes of all allocations in all runs",
            "",
            f"Ordered by: {ordered_by}",
            "",
            "ncalls     memory_peak    memory_total  filename:lineno(function)",
        ]
        lines += [
            f"{record.num_calls:6,d} {record.memory_peak:15,d} {record.memory_total:15,d}  {name}"
            for name, record in records
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.records})"

    def __str__(self) -> str:
        return self.report()


def _get_descriptive_name_of_object(obj: Any) -> str:
    """``file:line(name)`` of a function or class."""
    original = inspect.unwrap(obj)
    line = inspect.getsourcelines(original)[1]
    return f"{inspect.getfile(original)}:{line}({original.__qualname__})"


#: Where profilers write unless they are told otherwise.
default_profiler_records = ProfilerRecords()


class ProfilerContext:
    """What `profiler` returns: a decorator and a context manager."""

    def __init__(self, records: ProfilerRecords, name: str) -> None:
        self._records = records
        self._name = name

    def _end(self, name: str) -> None:
        figures = pop_statistics()
        if figures is not None:
            self._records.add(name=name, data=figures)

    def __call__(self, func: Callable[P, T]) -> Callable[P, T]:
        name = self._name or _get_descriptive_name_of_object(func)

        @functools.wraps(func)
        def profiled(*args: P.args, **kwargs: P.kwargs) -> T:
            push_statistics()
            try:
                return func(*args, **kwargs)
            finally:
                self._end(name)

        return profiled

    def __enter__(self) -> ProfilerContext:
        if not self._name:
            raise ValueError("a profiler that is used as a context manager needs a name")
        push_statistics()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(self._name)


def profiler(
    *, records: ProfilerRecords = default_profiler_records, name: str = ""
) -> ProfilerContext:
    """Measures a function, as a decorator, or a block, as a context manager.

    Parameters
    ----------
    records : ProfilerRecords
        Where to write.
    name : str
        The name of the record. A decorator names it after the function by default.
    """
    return ProfilerContext(records, name)
