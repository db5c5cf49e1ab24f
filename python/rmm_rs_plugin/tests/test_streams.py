"""Streams that end before the pool: what the software driver finds in a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# As a program of CuPy's: the streams are destroyed with their objects, and the pool is used, trimmed
# and dropped later. New streams get the handles.
PROGRAM = """
import sys, rmm, rmm.mr
from rmm.pylibrmm.stream import Stream
from rmm_rs_plugin import PoolMemoryResource, forget_stream
pool = PoolMemoryResource({upstream}, "1MiB", stream_policy={policy!r})
for _ in range(3):
    streams = [Stream() for _ in range(4)]
    buffers = [rmm.DeviceBuffer(size=5000, mr=pool, stream=stream) for stream in streams]
    del buffers
    while streams:
        stream = streams.pop()
        if {forgets}:
            forget_stream(stream)
        del stream
assert pool.statistics()["live_bytes"] == 0
pool.trim()
del pool
"""


@pytest.fixture
def found(run: Callable[..., Any], runtime: Any, tmp_path: Path) -> Callable[..., list[str]]:
    """Runs the program, and returns what the driver says of it."""

    def lines(**values: Any) -> list[str]:
        result = run(PROGRAM.format(**values), env={"RMM_SIM_REPORT": str(tmp_path)})
        assert (result.returncode, result.stderr) == (0, "")
        (report,) = tmp_path.iterdir()
        calls, *rest, end = report.read_text().splitlines()
        assert (calls.split()[0], end) == ("calls", "end")
        return rest

    return lines


@pytest.mark.parametrize("upstream", ["None", "rmm.mr.CudaMemoryResource()"])
@pytest.mark.parametrize(("policy", "forgets"), [("checked", False), ("checked", True), ("kept", True)])
def test_streams_may_end_before_the_pool(
    found: Callable[..., list[str]], upstream: str, policy: str, forgets: bool
) -> None:
    assert found(upstream=upstream, policy=policy, forgets=forgets) == []


def test_a_kept_stream_that_is_not_forgotten_is_used_after_its_end(
    found: Callable[..., list[str]],
) -> None:
    # What the policy "kept" forbids: NVIDIA's driver can crash.
    lines = found(upstream="None", policy="kept", forgets=False)
    assert any("use of a destroyed handle" in line for line in lines)
