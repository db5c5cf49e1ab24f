"""Fetches the headers that the package is compiled with: of each version of PyTorch that it serves,
and of the CUDA runtime.

    python fetch_headers.py [--libraries] FOLDER [VERSION ...]

The wheels for macOS have the headers, and are five times smaller than those for Linux. Those are
fetched with `--libraries`, for c10's two libraries, which the tests run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

#: The versions that the package serves.
VERSIONS = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
MACOS = ("macosx_14_0_arm64",)
LINUX = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")
CUDA = ("nvidia-cuda-runtime==13.*", "nvidia-cuda-crt==13.*")
HEADERS = (
    "torch/include/c10/",
    "torch/include/torch/headeronly/",
    "torch/include/torch/csrc/cuda/",
)
LIBRARIES = ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so")


def fetch(requirement: str, platforms: tuple[str, ...], into: Path) -> Path:
    """The wheel of a requirement, which pip downloads."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(into)]
    command += ["--python-version", "312", "--only-binary", ":all:"]
    for platform in platforms:
        command += ["--platform", platform]
    subprocess.run([*command, requirement], check=True)
    return next(into.glob("*.whl"))


def extract(
    requirement: str, platforms: tuple[str, ...], names: tuple[str, ...], into: Path
) -> None:
    """Puts the files of a requirement's wheel whose names begin so into a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        wheel = fetch(requirement, platforms, Path(temporary))
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith(names) and not name.endswith("/"):
                    archive.extract(name, into)


def main(folder: Path, versions: tuple[str, ...], *, with_libraries: bool) -> None:
    """Fetches what is missing in the folder."""
    for version in versions:
        torch = f"torch=={version}"
        if not (folder / version / "torch" / "include").exists():
            extract(torch, MACOS, HEADERS, folder / version)
        if with_libraries and not (folder / version / "torch" / "lib").exists():
            extract(torch, LINUX, LIBRARIES, folder / version)
    for requirement in CUDA:
        extract(requirement, LINUX, ("nvidia/cu13/include/",), folder)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--libraries"]
    if not arguments:
        sys.exit(__doc__)
    main(
        Path(arguments[0]),
        tuple(arguments[1:]) or VERSIONS,
        with_libraries="--libraries" in sys.argv,
    )
