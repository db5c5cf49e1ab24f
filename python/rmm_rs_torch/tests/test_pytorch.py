"""Programs of the real PyTorch on the software driver.

`RMM_RS_TORCH_PYTHON` is an interpreter with PyTorch, its libraries of CUDA, and rmm-rs. They need
neither a GPU nor NVIDIA's runtime, in whose place the stand-in is loaded first.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import programs
import pytest
from conftest import PYTHON

FOLDER = programs.HERE / "pytorch"


@pytest.mark.parametrize("program", ["memory", "trees"])
def test_both_allocators_print_the_same(
    environment: dict[str, str], tmp_path: Path, program: str
) -> None:
    printed = {}
    for allocator in ("native", "rmm-rs"):
        report = tmp_path / allocator
        report.mkdir()
        done = subprocess.run(
            [str(PYTHON), FOLDER / f"{program}.py", allocator],
            capture_output=True,
            text=True,
            timeout=300,
            env={**environment, "RMM_SIM_REPORT": str(report)},
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed[allocator] = done.stdout
        violations = [line for path in report.iterdir() for line in path.read_text().splitlines()]
        assert not [line for line in violations if "violation" in line]
    assert printed["rmm-rs"] == printed["native"]
