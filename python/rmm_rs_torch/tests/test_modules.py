"""The compiled modules: what they need of PyTorch, and that conditions on versions are right."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import programs
import pytest

SOURCES = programs.HERE.parent / "src"
VERSIONS = programs.versions() or ["2.14"]


def symbols(library: Path, which: str) -> set[str]:
    """The dynamic symbols of a library that are defined, or undefined, without versions."""
    done = subprocess.run(
        ["nm", "-D", f"--{which}-only", library], capture_output=True, text=True, check=True
    )
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}


def module_of(folder: Path, version: str) -> Path:
    return next(folder.glob(f"_torch_{version.replace('.', '_')}.*so"))


@pytest.mark.parametrize("version", VERSIONS)
def test_pytorch_has_what_its_module_needs(folder: Path, version: str) -> None:
    libraries = programs.folder_of(version) / "lib"
    there = symbols(libraries / "libc10.so", "defined")
    there |= symbols(libraries / "libc10_cuda.so", "defined")
    needed = {name for name in symbols(module_of(folder, version), "undefined") if "c10" in name}
    # This one is in libtorch_cuda.so.
    missing = {name for name in needed - there if "changeCurrentAllocator" not in name}
    assert needed & there
    assert not missing


@pytest.mark.parametrize("version", VERSIONS)
def test_a_module_names_libraries_and_no_paths(folder: Path, version: str) -> None:
    done = subprocess.run(
        ["readelf", "-d", module_of(folder, version)], capture_output=True, text=True, check=True
    )
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", done.stdout))
    assert {"libc10.so", "libc10_cuda.so", "libtorch_cuda.so"} <= needed
    assert not {name for name in needed if "cudart" in name or "python" in name}
    assert "RPATH" not in done.stdout and "RUNPATH" not in done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shift", [-1, 1])
def test_a_wrong_condition_does_not_compile(
    folder: Path, tmp_path: Path, version: str, shift: int
) -> None:
    """As if the class were for the version before or after, where the interface differs there."""
    minor = int(version.split(".")[1])
    other = minor + shift
    changes = {12, 13, 14}
    if not changes & set(range(min(minor, other) + 1, max(minor, other) + 1)):
        pytest.skip("the two have the same functions")
    if shift < 0 and minor in (13, 14):
        pytest.skip("functions with bodies in the base class may be left out")
    for source in SOURCES.iterdir():
        shutil.copy(source, tmp_path)
    for path in tmp_path.glob("allocator*"):
        path.write_text(path.read_text().replace("TORCH_VERSION_MINOR", str(other)))
    (tmp_path / "all.cpp").write_text(
        "".join(
            f'#include "{name}.cpp"\n'
            for name in ("allocator", "allocator_pools", "allocator_history")
        )
    )
    includes = [
        programs.folder_of(version) / "include",
        programs.headers() / "nvidia" / "cu13" / "include",
        programs.ROOT / "crates" / "rmm-capi" / "include",
        programs.ROOT / "crates" / "rmm-py" / "include",
        Path(sysconfig.get_path("include")),
    ]
    command = ["c++", "-std=c++20", "-fsyntax-only", "-w", "-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE"]
    command += [f"-I{path}" for path in includes]
    done = subprocess.run(
        [*command, "all.cpp"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode != 0
    assert "allocator" in done.stderr
