"""Runs the test programs in `cpp`, each test in a process of its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import programs
import pytest

NAMES = sorted(
    name
    for source in (programs.HERE / "cpp").glob("*_test.cpp")
    for name in re.findall(r"^TEST\((\w+)\)", source.read_text(), re.MULTILINE)
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", programs.versions() or ["2.14"])
def test_program(folder: Path, tmp_path: Path, version: str, name: str) -> None:
    program = folder / f"test_torch_{version.replace('.', '_')}"
    done = subprocess.run(
        [program, name],
        capture_output=True,
        text=True,
        timeout=300,
        env=programs.environment(tmp_path),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    reports = [report.read_text() for report in tmp_path.iterdir()]
    assert reports, "the software driver has written no report"
    violations = [line for text in reports for line in text.splitlines() if "violation" in line]
    assert not violations, violations
