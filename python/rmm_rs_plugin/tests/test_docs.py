"""The examples of the read-me and of the guide run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def test_the_readmes_examples_run(run: Callable[..., Any]) -> None:
    text = (ROOT / "python" / "rmm_rs_plugin" / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 2
    # The last one alone is what the device keeps.
    result = run("\n".join([*blocks, "assert rmm.DeviceBuffer(size=100).size == 100"]))
    assert (result.returncode, result.stderr) == (0, "")


def test_the_guides_example_runs(run: Callable[..., Any]) -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    section = text[text.index("## The plug-in\n") :]
    (block,) = re.findall(r"```py\n(.*?)```", section, re.S)
    result = run(block + "import rmm; assert rmm.DeviceBuffer(size=100).size == 100")
    assert (result.returncode, result.stderr) == (0, "")
