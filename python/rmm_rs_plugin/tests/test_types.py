"""The package's types: strict, and those of the stub as the extension module has them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")
HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "pyproject.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without sources, with mypy's cache."""
    return tmp_path_factory.mktemp("types")


def mypy(folder: Path, module: str, *arguments: str) -> None:
    """Runs it on what is installed."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_strictly_typed(folder: Path) -> None:
    mypy(folder, "mypy", "--strict", "-p", "rmm_rs_plugin")


def test_the_tests_are_strictly_typed(folder: Path) -> None:
    mypy(folder, "mypy", "--strict", str(HERE))


def test_the_stub_is_what_the_extension_module_has(folder: Path) -> None:
    # What Cython adds to a module.
    allowed = folder / "allowed.txt"
    names = "__reduce_cython__", "__setstate_cython__", "__test__"
    allowed.write_text("".join(f"rmm_rs_plugin._plugin.{name}\n" for name in names))
    options = ("--concise", "--ignore-disjoint-bases", "--allowlist", str(allowed))
    mypy(folder, "mypy.stubtest", *options, "rmm_rs_plugin")
