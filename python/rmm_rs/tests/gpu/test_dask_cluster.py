"""Dask-CUDA's cluster of two workers with CuPy's arrays, each worker on a pool of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if "RMM_CUDA_LIBRARY" in os.environ:
    reason = "needs a GPU: CUDA's runtime does not start on the software driver"
    pytest.skip(reason, allow_module_level=True)

for _name in ("cupy", "dask_cuda", "numba.cuda"):
    pytest.importorskip(_name, exc_type=ImportError)

pytestmark = pytest.mark.filterwarnings("default")

PROGRAM = Path(__file__).resolve().parents[1] / "dask_program.py"


def test_two_workers_compute_with_cupy(run: Callable[..., Any]) -> None:
    result = run("", arguments=(str(PROGRAM), "cupy"), timeout=110)
    assert result.returncode == 0, result.stderr[-6000:]
    print(result.stdout)
    assert result.stdout.splitlines()[-1] == "done"
