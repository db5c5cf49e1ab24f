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
