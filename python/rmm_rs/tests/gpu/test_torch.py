"""PyTorch's programs on our pool.

Its allocator is changed before anything else, so each has a process.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if "RMM_CUDA_LIBRARY" in os.environ:
    reason = "needs a GPU: CUDA's runtime does not start on the software driver"
    pytest.skip(reason, allow_module_level=True)

torch = pytest.importorskip("torch")

if not torch.cuda.is_available():
    pytest.skip("PyTorch has no GPU", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("default")

DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


@pytest.fixture
def outcome(run: Callable[..., Any]) -> Callable[..., Any]:
    """What the program prints, in a process of its own."""
    program = Path(__file__).resolve().parent / "torch_program.py"

    def outcome_of(*arguments: str) -> Any:
        result = run("", arguments=(str(program), *arguments), env=DETERMINISTIC)
        assert result.returncode == 0, f"exit status {result.returncode}\n{result.stderr}"
        return json.loads(result.stdout.splitlines()[-1])

    return outcome_of


def test_training_is_that_of_torchs_own_allocator(outcome: Callable[..., Any]) -> None:
    own, ours = (outcome(kind, "train") for kind in ("own", "pool"))
    assert ours["total"] > 0
    assert len(own["losses"]) == len(ours["losses"]) == 20
    for expected, found in zip(own["losses"], ours["losses"], strict=True):
        assert math.isclose(expected, found, rel_tol=1e-3), (own["losses"], ours["losses"])


def test_memory_is_returned(outcome: Callable[..., Any]) -> None:
    found = outcome("pool", "memory")
    assert found["live"] == 4 << 20, found
    assert found["rounds"][1] == found["rounds"][2], f"memory is left with each round: {found}"
    assert found["after"] == found["end"] == 0, found
    assert found["peak"] > 1 << 20


def test_more_than_the_device_has_raises(outcome: Callable[..., Any]) -> None:
    found = outcome("pool", "limit")
    assert len(found["errors"]) == 2 and found["sum"] == 1000, found
    for name, is_out_of_memory, text in found["errors"]:
        print(name, is_out_of_memory, text)
        assert is_out_of_memory or "bad_alloc" in text or "out of memory" in text, found


def test_streams_share_tensors(outcome: Callable[..., Any]) -> None:
    expected = 2 * sum(range(50)) * (1 << 16)
    assert outcome("pool", "streams")["total"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["own", "pool", "default"])
def test_announced_uses_on_other_streams_are_kept(outcome: Callable[..., Any], kind: str) -> None:
    found = outcome(kind, "uses")
    print(kind, found)
    assert found["rounds"] >= 60 and found["wrong"] == 0, found


def test_an_unannounced_use_would_be_noticed(outcome: Callable[..., Any]) -> None:
    assert outcome("default", "unannounced")["wrong"] > 0


@pytest.mark.parametrize("kind", ["pool", "default"])
def test_uses_are_kept_while_the_resource_changes(outcome: Callable[..., Any], kind: str) -> None:
    found = outcome(kind, "changes")
    print(kind, found)
    assert found["wrong"] == 0, found


def test_buffers_and_tensors_are_exchanged() -> None:
    import rmm_rs

    buffer = rmm_rs.DeviceBuffer.to_device(bytes(range(200)))
    for view in (torch.as_tensor(buffer, device="cuda"), torch.from_dlpack(buffer)):
        assert view.data_ptr() == buffer.ptr and int(view.sum(dtype=torch.int64)) == sum(range(200))
    if hasattr(torch.cuda.Stream, "__cuda_stream__"):
        own = rmm_rs.pylibrmm.stream.Stream(torch.cuda.Stream())
        assert rmm_rs.DeviceBuffer(size=100, stream=own).size == 100
