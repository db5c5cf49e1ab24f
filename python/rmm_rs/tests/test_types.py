"""The package's types: strict, and those of the stub as the extension module has them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmm_rs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="needs mypy"
)
PACKAGE = Path(rmm_rs.__file__).resolve().parents[1]
CONFIG = Path(__file__).resolve().parents[1] / "pyproject.toml"


def test_the_package_is_strictly_typed(run: Callable[..., Any], tmp_path: Path) -> None:
    arguments = ("-m", "mypy", "--config-file", str(CONFIG), "--cache-dir", str(tmp_path),
                 "-p", "rmm_rs")
    result = run("", arguments=arguments, env={"MYPYPATH": str(PACKAGE)})
    assert result.returncode == 0, result.stdout


def test_the_stub_is_what_the_extension_module_has(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ("-m", "mypy.stubtest", "--concise", "--mypy-config-file", str(CONFIG),
                 "--ignore-disjoint-bases", "rmm_rs")
    result = run("", arguments=arguments, env={"MYPYPATH": str(PACKAGE)})
    assert result.returncode == 0, result.stdout
