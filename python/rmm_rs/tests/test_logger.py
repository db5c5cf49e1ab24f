"""The debug log."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmm_rs
from rmm_rs import level_enum


@pytest.fixture(autouse=True)
def restored() -> Any:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rmm_rs.set_logging_level(level_enum.info)
        rmm_rs.set_flush_level(level_enum.off)


@pytest.mark.parametrize("level", level_enum)
def test_a_level_is_set(level: level_enum) -> None:
    rmm_rs.set_logging_level(level)
    assert rmm_rs.get_logging_level() is level and rmm_rs.should_log(level)
    rmm_rs.set_flush_level(level)
    assert rmm_rs.get_flush_level() is level
    rmm_rs.flush_logger()


@pytest.mark.parametrize("level", [3, "INFO", None])
def test_only_members_are_levels(level: Any) -> None:
    for function in (rmm_rs.set_logging_level, rmm_rs.set_flush_level, rmm_rs.should_log):
        with pytest.raises(TypeError):
            function(level)


def test_a_level_that_is_not_logged_warns() -> None:
    rmm_rs.set_logging_level(level_enum.error)
    assert not rmm_rs.should_log(level_enum.warn)
    with pytest.warns(UserWarning, match="^RMM will not log level_enum.info"):
        rmm_rs.set_flush_level(level_enum.info)


#: A resource whose addresses no device has: the software driver would report wrong frees of its own.
FAKE = """
import itertools
from rmm_rs import mr
addresses = itertools.count(0x1000, 0x1000)
fake = mr.CallbackMemoryResource(lambda size, stream: next(addresses), lambda *_: None)
"""
WRONG_FREES = FAKE + """
import rmm_rs, sys
from rmm_rs import level_enum
if sys.argv[1:] == ["off"]:
    rmm_rs.set_logging_level(level_enum.off)
tracking = mr.TrackingResourceAdaptor(fake)
kept = tracking.allocate(1234)
tracking.deallocate(tracking.allocate(100), 5)
tracking.deallocate(0x100000, 10)
del tracking
rmm_rs.flush_logger()
"""


def test_wrong_frees_and_leaks_go_to_the_log(run: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "debug.txt"
    result = run(WRONG_FREES, env={"RMM_DEBUG_LOG_FILE": str(path)})
    assert (result.returncode, result.stderr) == (0, "")
    size, unknown, leak = [line for line in path.read_text().splitlines() if line.startswith("[")]
    assert "[error " in size and "Alloc bytes (100) and Dealloc bytes (5) do not match" in size
    assert "[error " in unknown and "a pointer that was not tracked" in unknown
    assert "[warn  " in leak and "Leaked: 1.2 KiB in 1 block" in leak


def test_exhausted_pools_and_wrong_frees_of_pools_go_to_the_log(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    code = """
from rmm_rs import mr
import rmm_rs, sys
def refused(resource, bytes):
    try:
        resource.allocate(bytes)
    except MemoryError:
        return
    raise AssertionError(resource)
cuda = mr.CudaMemoryResource()
pool = mr.PoolMemoryResource(cuda, 0, 1 << 20, check_frees=True)
refused(mr.StatisticsResourceAdaptor(pool), 2 << 20)
refused(mr.FixedSizeMemoryResource(cuda, 1 << 10, 1), 1 << 20)
# RMM's does not log either.
refused(mr.LimitingResourceAdaptor(cuda, 10), 20)
try:
    pool.deallocate(pool.allocate(1000), 5)
except ValueError:
    pass
rmm_rs.flush_logger()
"""
    path = tmp_path / "debug.txt"
    path.write_text("of a former process")
    result = run(code, env={"RMM_DEBUG_LOG_FILE": str(path)})
    assert (result.returncode, result.stderr) == (0, "")
    text = path.read_text()
    assert "of a former process" not in text
    full, size, wrong = [line for line in text.splitlines() if line.startswith("[")]
    assert "[error " in full and "pool could not allocate 2.0 MiB" in full
    assert "[error " in size and "fixed-size could not allocate" in size
    assert "[error " in wrong and "(1000) and Dealloc bytes (5) do not match" in wrong


def test_a_log_that_is_off_has_no_wrong_frees(run: Callable[..., Any]) -> None:
    result = run("", arguments=("-c", WRONG_FREES, "off"))
    assert (result.returncode, result.stderr) == (0, "")


def test_what_a_line_drops_may_log(run: Callable[..., Any]) -> None:
    code = FAKE + """
import sys
class Drops:
    lines = []
    def write(self, text):
        # As the collector may, while the line is written.
        kept.clear()
        self.lines.append(text)
    def flush(self):
        pass
kept = [mr.TrackingResourceAdaptor(fake)]
kept[0].allocate(10)
tracking = mr.TrackingResourceAdaptor(fake)
sys.stderr = Drops()
tracking.deallocate(0x100000, 10)
sys.stderr = sys.__stderr__
leak, wrong = Drops.lines
assert "Leaked: 10 B" in leak and "not tracked" in wrong
"""
    result = run(code, timeout=30)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_log_goes_to_a_file(run: Callable[..., Any], tmp_path: Path) -> None:
    code = """
import rmm_rs
tracking = rmm_rs.mr.TrackingResourceAdaptor(rmm_rs.mr.CudaMemoryResource())
tracking.log_outstanding_allocations()
rmm_rs.set_logging_level(rmm_rs.level_enum.debug)
buffer = rmm_rs.DeviceBuffer(size=1234, mr=tracking)
tracking.log_outstanding_allocations()
rmm_rs.flush_logger()
del buffer
"""
    path = tmp_path / "debug.txt"
    result = run(code, env={"RMM_DEBUG_LOG_FILE": str(path)})
    assert (result.returncode, result.stderr) == (0, "")
    (line,) = [line for line in path.read_text().splitlines() if "Outstanding" in line]
    assert "[debug " in line and "1234 B" in path.read_text()


def test_a_log_that_cannot_be_written_ends_nothing(run: Callable[..., Any]) -> None:
    done = run(
        """
import sys
from rmm_rs import mr
tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
block = tracking.allocate(256)
sys.stderr.close()
tracking.deallocate(block, 512)
print(tracking.wrong_frees)
"""
    )
    assert (done.returncode, done.stdout.split()) == (0, ["1"]), done.stderr
