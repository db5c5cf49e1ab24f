"""The examples of the guide run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def test_the_guides_examples_run(run: Callable[..., Any]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.S)
    result = run("\n".join(blocks))
    assert (result.returncode, result.stderr) == (0, "")
    # What the guide says that one of them prints.
    (printing,) = (block for block in blocks if "print(" in block)
    assert result.stdout and result.stdout.strip() in printing, result.stdout


def test_the_readmes_example_runs(run: Callable[..., Any]) -> None:
    text = (ROOT / "python" / "rmm_rs" / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.S)
    result = run(block)
    assert (result.returncode, result.stderr) == (0, "")
