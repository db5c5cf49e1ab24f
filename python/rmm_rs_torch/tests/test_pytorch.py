"""Programs of the real PyTorch on the software driver.

`RMM_RS_TORCH_PYTHON` is an interpreter with PyTorch, its libraries of CUDA, and rmm-rs. They need
neither a GPU nor NVIDIA's runtime, in whose place the stand-in is loaded first.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import programs
import pytest

PYTHON = os.environ.get("RMM_RS_TORCH_PYTHON")
FOLDER = programs.HERE / "pytorch"


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
    command += [str(FOLDER / "cudart_rest.cpp"), str(runtime / "libcudart.so.13")]
    subprocess.run(command, check=True)
    return {
        **programs.environment(folder),
        "PYTHONPATH": str(package.parent),
        # The first of two definitions counts.
        "LD_PRELOAD": f"{rest} {runtime / 'libcudart.so.13'}",
    }


@pytest.mark.parametrize("program", ["memory", "trees"])
def test_both_allocators_print_the_same(
    environment: dict[str, str], tmp_path: Path, program: str
) -> None:
    printed = {}
    for allocator in ("native", "rmm-rs"):
        report = tmp_path / allocator
        report.mkdir()
        done = subprocess.run(
            [str(PYTHON), FOLDER / f"{program}.py", allocator],
            capture_output=True,
            text=True,
            timeout=300,
            env={**environment, "RMM_SIM_REPORT": str(report)},
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed[allocator] = done.stdout
        violations = [line for path in report.iterdir() for line in path.read_text().splitlines()]
        assert not [line for line in violations if "violation" in line]
    assert printed["rmm-rs"] == printed["native"]
