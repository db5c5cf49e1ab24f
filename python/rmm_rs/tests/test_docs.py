"""The examples of the guide run."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmm_rs import _rmm

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


def test_the_collector_of_prometheus_is_registered_as_printed(run: Callable[..., Any]) -> None:
    pytest.importorskip("prometheus_client")
    text = (ROOT / "docs" / "watching.md").read_text()
    (block,) = re.findall(r"```python,ignore\n(.*?)```", text, re.S)
    before = "from rmm_rs import mr\npool = mr.PoolMemoryResource(mr.CudaMemoryResource(), '1MiB')\n"
    after = "print(prometheus_client.generate_latest().decode())"
    result = run(before + block + after)
    assert (result.returncode, result.stderr) == (0, "")
    assert 'rmm_pool_reserved_bytes{pool="workers"} 1.048576e+06\n' in result.stdout


def test_sections_of_docstrings_are_sections() -> None:
    """A heading stands alone, and a line of dashes is below it."""
    heads = r"Parameters|Returns|Raises|Yields|Attributes"
    classes = [value for value in vars(_rmm).values() if isinstance(value, type)]
    members = [member for one in classes for member in vars(one).values()]
    texts = [value.__doc__ or "" for value in [*vars(_rmm).values(), *classes, *members]]
    headed = 0
    for text in texts:
        lines = [line.strip() for line in text.splitlines()]
        assert not re.search(rf"\b({heads}) -{{4}}", text), text
        for above, below in itertools.pairwise(lines):
            headed += re.fullmatch(heads, above) is not None and set(below) == {"-"}
    assert headed > 20
