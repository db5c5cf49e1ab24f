"""The test programs in `cpp`, one for each version of PyTorch: they call its own allocator and this
package's through the base class, on the software driver.

`build` needs `RMM_RS_TORCH_HEADERS`, a folder that ``fetch_headers.py --libraries`` has filled, the
libraries of ``cargo build -p rmm-capi -p rmm-sim-driver``, a C++ compiler, CMake and Ninja.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
FOLDER = TARGET / "python" / "torch-tests"
# Where pip puts CMake and Ninja.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
#: Libraries of cargo, and the names that programs look for.
LIBRARIES = {"librmm_sim_driver.so": "libcuda.so.1", "librmm_rs.so": "librmm_rs.so.1"}


class CannotRun(Exception):
    """What is missing on this machine."""


def headers() -> Path:
    """The folder with headers and libraries."""
    given = os.environ.get("RMM_RS_TORCH_HEADERS")
    if not given:
        raise CannotRun("RMM_RS_TORCH_HEADERS names no folder: see fetch_headers.py")
    return Path(given).resolve()


def versions() -> list[str]:
    """The versions whose libraries are there, such as ``2.14``."""
    try:
        found = headers().glob("*/torch/lib/libc10_cuda.so")
    except CannotRun:
        return []
    names = {".".join(path.parents[2].name.split(".")[:2]) for path in found}
    wanted = os.environ.get("RMM_RS_TORCH_VERSIONS")
    chosen = names & set(wanted.split(";")) if wanted else names
    return sorted(chosen, key=lambda name: [int(part) for part in name.split(".")])


def folder_of(version: str) -> Path:
    """The folder with `include` and `lib` of a version."""
    return next(headers().glob(f"{version}.*/torch"))


def printed_program(page: str, part: str) -> str:
    """The code block of a page of the repository that has a part in it."""
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return next(code for code in blocks if part in code)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def _runtime() -> Path:
    """The folder of the software driver, the CUDA runtime over it, and the C interface."""
    folder = FOLDER / "runtime"
    folder.mkdir(parents=True, exist_ok=True)
    for built, name in LIBRARIES.items():
        library = TARGET / "debug" / built
        if not library.exists():
            raise CannotRun(f"{library} is missing: cargo build -p rmm-capi -p rmm-sim-driver")
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(library)
    stand_in = FOLDER / "cudart"
    _run(
        *("cmake", "-G", "Ninja", "-S", ROOT / "xtask" / "rmm-tests", "-B", stand_in),
        *(f"-DWHEELS={headers()}", f"-DLIBRARIES={folder}"),
    )
    _run("cmake", "--build", stand_in, "--target", "cudart")
    shutil.copy(stand_in / "libcudart.so.13", folder / "libcudart.so.13")
    return folder


@cache
def build() -> Path:
    """Builds the modules and the programs, and returns the folder that has them.

    Raises
    ------
    CannotRun
        If something is missing.
    """
    if sys.platform != "linux":
        raise CannotRun("the software driver is a library of Linux")
    for program in ("c++", "cmake", "ninja"):
        if shutil.which(program) is None:
            raise CannotRun(f"there is no {program}")
    if not versions():
        raise CannotRun(f"no libraries of PyTorch in {headers()}: fetch_headers.py --libraries")
    runtime = _runtime()
    folder = FOLDER / "build"
    _run(
        *("cmake", "-G", "Ninja", "-S", HERE.parent, "-B", folder),
        *(f"-DRMM_RS_TORCH_HEADERS={headers()}", f"-DRMM_RS_TORCH_RUNTIME={runtime}"),
        *(f"-DRMM_RS_TORCH_VERSIONS={';'.join(versions())}", "-DCMAKE_BUILD_TYPE=Release"),
        *(f"-DPython_EXECUTABLE={sys.executable}",),
    )
    _run("cmake", "--build", folder)
    return folder


def environment(report: Path) -> dict[str, str]:
    """The variables of a program on the software driver, which reports into a folder."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    runtime = str(FOLDER / "runtime")
    return {
        **others,
        "LD_LIBRARY_PATH": runtime,
        "RMM_SIM_DEVICES": "2",
        "RMM_SIM_REPORT": str(report),
    }
