"""Processes that tests run programs in: with a stand-in for PyTorch, or with the real one."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import programs
import pytest

#: An interpreter with PyTorch, for tests with the real one.
PYTHON = os.environ.get("RMM_RS_TORCH_PYTHON")
VERSIONS = programs.versions() or ["2.14"]
Run = Callable[..., str]


@pytest.fixture(scope="session")
def folder() -> Path:
    try:
        return programs.build()
    except programs.CannotRun as why:
        pytest.skip(str(why))


@pytest.fixture(params=VERSIONS)
def run(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Run:
    """Runs Python code in a process of its own, beside a version of PyTorch, and returns what it
    printed. `shown` is the version that PyTorch says it is."""
    version = request.param
    package = tmp_path / "site" / "rmm_rs_torch"
    package.mkdir(parents=True)
    sources = programs.HERE.parent / "rmm_rs_torch"
    for path in [*sources.glob("*.py"), folder / "_built_for.py", *folder.glob("_torch_2_*.so")]:
        (package / path.name).symlink_to(path)
    libraries = programs.folder_of(version) / "lib"
    runtime = programs.FOLDER / "runtime"
    paths = [
        runtime / "libcuda.so.1",
        runtime / "libcudart.so.13",
        libraries / "libc10.so",
        libraries / "libc10_cuda.so",
        folder / "stand_in_torch" / version / "libtorch_cuda.so",
    ]

    def run_python(code: str, shown: str = f"{version}.0+cu130", **variables: str) -> str:
        environment = {
            **programs.environment(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(package.parent), str(programs.HERE / "stand_in")]),
            "STAND_IN_LIBRARIES": ":".join(map(str, paths)),
            "STAND_IN_VERSION": shown,
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-W", "always", "-c", code],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run_python


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if not PYTHON:
        pytest.skip("RMM_RS_TORCH_PYTHON names no interpreter with PyTorch")
    try:
        built = programs.build()
    except programs.CannotRun as why:
        pytest.skip(str(why))
    folder = tmp_path_factory.mktemp("pytorch")
    package = folder / "site" / "rmm_rs_torch"
    package.mkdir(parents=True)
    # `import torch` finds what is called then by the metadata of packages.
    metadata = folder / "site" / "rmm_rs_torch-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rmm-rs-torch\nVersion: 0\n")
    project = tomllib.loads((programs.HERE.parent / "pyproject.toml").read_text())["project"]
    for name, value in project["entry-points"]["torch.backends"].items():
        (metadata / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {value}\n")
    sources = programs.HERE.parent / "rmm_rs_torch"
    for path in [*sources.glob("*.py"), built / "_built_for.py", *built.glob("_torch_2_*.so")]:
        (package / path.name).symlink_to(path)
    runtime = programs.FOLDER / "runtime"
    rest = folder / "libcudart_rest.so"
    command = ["c++", "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-o", str(rest)]
    command += [f"-I{programs.headers() / 'nvidia' / 'cu13' / 'include'}"]
    # The version that PyTorch's libraries ask for.
    (folder / "versions").write_text("libcudart.so.13 { global: *; };")
    command += [f"-Wl,--version-script={folder / 'versions'}"]
    command += [
        str(programs.HERE / "pytorch" / "cudart_rest.cpp"),
        str(runtime / "libcudart.so.13"),
    ]
    subprocess.run(command, check=True)
    return {
        **programs.environment(folder),
        "PYTHONPATH": str(package.parent),
        # The first of two definitions counts.
        "LD_PRELOAD": f"{rest} {runtime / 'libcudart.so.13'}",
    }
