"""The package's types: strict, those of the stub as the extension module has them, and enough for
programs, of which these tests are some."""

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
TESTS = Path(__file__).resolve().parent
CONFIG = TESTS.parent / "pyproject.toml"
# What is installed mypy finds by itself, and refuses to be told.
ENVIRONMENT = {} if PACKAGE.name == "site-packages" else {"MYPYPATH": str(PACKAGE)}

CHECKS = {
    "the package is strictly typed": ("mypy", "--config-file", str(CONFIG), "-p", "rmm_rs"),
    "the tests are strictly typed": ("mypy", "--config-file", str(CONFIG), str(TESTS)),
    "the stub is what the module has": (
        "mypy.stubtest", "--concise", "--mypy-config-file", str(CONFIG), "rmm_rs",
    ),
}


@pytest.mark.parametrize("check", CHECKS)
def test_of_types(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    # No folder beside the tests is taken for a package, and no cache left there.
    monkeypatch.chdir(tmp_path)
    result = run("", arguments=("-m", *CHECKS[check]), env=ENVIRONMENT)
    assert result.returncode == 0, result.stdout + result.stderr
