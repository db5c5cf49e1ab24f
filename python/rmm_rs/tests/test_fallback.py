"""Resources for the real RMM by callbacks. An RMM of this test's own stands for it here; the plug-in's
tests have the real one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from rmm_rs import fallback, mr
from rmm_rs.pylibrmm.stream import Stream


class Callbacks:
    def __init__(self, allocate: Callable[..., int], deallocate: Callable[..., None]) -> None:
        self.allocate, self.deallocate = allocate, deallocate


class StreamOfRmm:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.stream.__cuda_stream__()


@pytest.fixture
def real_rmm(monkeypatch: pytest.MonkeyPatch) -> None:
    package, resources = ModuleType("rmm"), ModuleType("rmm.mr")
    package.mr = resources  # type: ignore[attr-defined]
    resources.CallbackMemoryResource = Callbacks  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rmm", package)
    monkeypatch.setitem(sys.modules, "rmm.mr", resources)
    monkeypatch.setattr(fallback, "_has_warned", False)


@pytest.mark.usefixtures("real_rmm")
def test_callbacks_reach_the_resource_and_warn_once() -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    with pytest.warns(RuntimeWarning, match="rmm-rs-plugin-cu13"):
        callbacks = fallback.callback_resource(pool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fallback.callback_resource(pool)
    assert isinstance(callbacks, Callbacks)
    # RMM calls with its own streams, by position.
    stream = StreamOfRmm(Stream())
    address = callbacks.allocate(1000, stream)
    assert pool.statistics()["live_bytes"] >= 1000
    callbacks.deallocate(address, 1000, stream)
    assert pool.statistics()["live_bytes"] == 0


@pytest.mark.usefixtures("real_rmm")
@pytest.mark.parametrize("wrong", [None, 3, object(), Callbacks])
def test_other_objects_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="resource of rmm_rs"):
        fallback.callback_resource(wrong)


def test_the_alias_and_no_rmm_are_refused(run: Callable[..., Any]) -> None:
    code = """
import sys
from rmm_rs import fallback, mr
sys.modules["rmm"] = None
def refused():
    try:
        fallback.callback_resource(mr.CudaMemoryResource())
    except ImportError as error:
        return error
print(refused())
del sys.modules["rmm"]
import rmm_rs.as_rmm
print(refused())
"""
    result = run(code)
    assert (result.returncode, result.stderr) == (0, "")
    assert "rmm is rmm_rs" in result.stdout.splitlines()[1]
