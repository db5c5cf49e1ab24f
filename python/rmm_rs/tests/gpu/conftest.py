"""Tests that need a GPU and a library with kernels: all skip on the software driver."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent

#: Files whose libraries do not start on the software driver: they are not imported then.
NEED_A_GPU = ("test_cupy.py", "test_dask_cluster.py", "test_torch.py")

if "RMM_CUDA_LIBRARY" in os.environ:

    class Skipped(pytest.File):
        """One skipped test, with the reason, in the place of a file."""

        def collect(self) -> list[pytest.Item]:
            return [SkippedItem.from_parent(self, name="needs_a_gpu")]

    class SkippedItem(pytest.Item):
        def runtest(self) -> None:
            pytest.skip("needs a GPU: CUDA's runtime does not start on the software driver")

    def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> Any:
        if module_path.parent == HERE and module_path.name in NEED_A_GPU:
            return Skipped.from_parent(parent, path=module_path)
        return None


@pytest.fixture
def program(run: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a program of this folder in a process of its own; its output is returned."""

    def run_program(name: str, *arguments: str, **options: Any) -> str:
        result = run("", arguments=(str(HERE / name), *arguments), **options)
        assert result.returncode == 0, f"exit status {result.returncode}\n{result.stderr}"
        output: str = result.stdout
        return output

    return run_program
