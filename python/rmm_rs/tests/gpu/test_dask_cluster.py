"""Dask-CUDA's cluster of two workers with CuPy's arrays, each worker on a pool of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

for _name in ("cupy", "dask_cuda", "numba.cuda"):
    pytest.importorskip(_name, exc_type=ImportError)

pytestmark = pytest.mark.filterwarnings("default")

PROGRAM = Path(__file__).resolve().parents[1] / "dask_program.py"


def test_two_workers_compute_with_cupy(run: Callable[..., Any]) -> None:
    result = run("", arguments=(str(PROGRAM), "cupy"), timeout=110)
    assert result.returncode == 0, result.stderr[-6000:]
    print(result.stdout)
    assert result.stdout.splitlines()[-1] == "done"
