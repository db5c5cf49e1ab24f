"""Memory that sleeps, with the real PyTorch on the software driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import programs
from conftest import PYTHON


def run(environment: dict[str, str], report: Path, *arguments: str | Path) -> list[str]:
    """Runs a program, and returns the violations that the driver has reported."""
    done = subprocess.run(
        [str(PYTHON), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**environment, "RMM_SIM_REPORT": str(report)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for path in report.iterdir() for line in path.read_text().splitlines()]
    return [line for line in lines if line.startswith("violation")]


def test_graphs_and_tags_sleep(environment: dict[str, str], tmp_path: Path) -> None:
    assert run(environment, tmp_path, programs.HERE / "pytorch" / "sleep.py") == []


def test_the_program_of_the_documentation_runs(environment: dict[str, str], tmp_path: Path) -> None:
    code = programs.printed_program("docs/pytorch.md", "Sleeper()")
    violations = run(environment, tmp_path, "-c", code)
    # PyTorch's kernels write nothing here.
    assert [line for line in violations if "uninitialised" not in line] == []
