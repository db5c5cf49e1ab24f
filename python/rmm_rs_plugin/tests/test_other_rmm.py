"""The build beside another RMM than the one it is for: what RMM announces to remove is not needed, and
what is needed and missing is named."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]
PROGRAMS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


class Tree:
    """A copy of RMM's declarations and headers, to be changed, and a build of the plug-in with them."""

    def __init__(self, root: Path) -> None:
        for program in ("cmake", "ninja", "nm", "c++"):
            if shutil.which(program, path=PROGRAMS) is None:
                pytest.skip(f"needs {program}")
        pytest.importorskip("Cython")
        self.root = root
        self.library = folder_of("librmm") / "lib64" / "librmm.so"
        declarations = shutil.ignore_patterns("*.so", "*.pyx", "__pycache__", "tests")
        shutil.copytree(folder_of("rmm"), root / "rmm", ignore=declarations)
        shutil.copytree(folder_of("librmm"), root / "librmm", ignore=shutil.ignore_patterns("lib64"))
        (root / "librmm" / "lib64").symlink_to(self.library.parent)

    def change(self, path: str, pattern: str, text: str) -> None:
        file = self.root / path
        changed, times = re.subn(pattern, text, file.read_text())
        assert times > 0, f"{path} has no {pattern}"
        file.write_text(changed)

    def build(self) -> tuple[int, str]:
        environment = {**os.environ, "PATH": PROGRAMS, "PYTHONPATH": str(self.root)}
        options = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Debug"]
        options += ["-DSKBUILD_SABI_COMPONENT=Development.SABIModule", "-DSKBUILD_SABI_VERSION=3.11"]
        folder = str(self.root / "build")
        output = ""
        for command in (
            ["cmake", "-G", "Ninja", "-S", str(PACKAGE), "-B", folder, *options],
            ["cmake", "--build", folder],
        ):
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            output += done.stdout + done.stderr
            if done.returncode != 0:
                return done.returncode, output
        return 0, output


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_it_builds_without_the_stream_views_that_rmm_26_12_removes(tree: Tree) -> None:
    (tree.root / "rmm/librmm/cuda_stream_view.pxd").unlink()
    (tree.root / "librmm/include/rmm/cuda_stream_view.hpp").unlink()
    stream = "librmm/include/rmm/cuda_stream.hpp"
    tree.change(stream, r"#include <rmm/cuda_stream_view\.hpp>\n", "")
    tree.change(stream, r"\[\[[^;]*cuda_stream_view[^;]*;", "")
    status, output = tree.build()
    assert status == 0, output

    # What was built, beside a library without RMM's symbols.
    check = [sys.executable, str(PACKAGE / "check_symbols.py"), "nm"]
    module = str(tree.root / "build" / "_plugin.abi3.so")
    logger = str(folder_of("rapids_logger") / "lib64" / "librapids_logger.so")
    done = subprocess.run([*check, module, logger, "26.99"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.match(r"error: the library of RMM 26\.99, \S+, has no\n", done.stderr)
    assert re.search(r"^  rmm::\S+::out_of_memory::out_of_memory\(", done.stderr, re.M)
    assert "Py" not in done.stderr


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("librmm/include/rmm/resource_ref.hpp", "device_async_resource_ref"),
        ("librmm/include/rmm/error.hpp", "out_of_memory"),
        ("rmm/librmm/memory_resource.pxd", "device_async_resource_ref"),
        ("rmm/pylibrmm/memory_resource/_memory_resource.pxd", "c_ref"),
        ("rmm/pylibrmm/memory_resource/__init__.pxd", "DeviceMemoryResource"),
    ],
)
def test_what_rmm_has_no_more_is_named(tree: Tree, path: str, name: str) -> None:
    tree.change(path, rf"\b{name}\b", f"{name}_of_another_release")
    status, output = tree.build()
    assert status != 0
    release, _, errors = output.partition("-- Build files")
    assert re.search(r"^-- RMM \d+\.\d+: ", release, re.M)
    # Also among the first lines, which is as far as anyone reads.
    assert name in "".join(re.findall(r".*rror.*(?:\n.*){0,12}", errors)[:1]), output
