"""Fetches the headers that the package is compiled with: of each version of PyTorch that it serves,
and of the CUDA runtime.

    python fetch_headers.py [--libraries] FOLDER [VERSION ...]

Only these files of PyTorch's wheel are read, which has half a gigabyte. With `--libraries` c10's
two libraries are among them, which the tests run.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

#: The versions that the package serves.
VERSIONS = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_28_x86_64")
CUDA = ("nvidia-cuda-runtime==13.*", "nvidia-cuda-crt==13.*")
HEADERS = (
    "torch/include/c10/",
    "torch/include/torch/headeronly/",
    "torch/include/torch/csrc/cuda/",
)
LIBRARIES = ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so")
#: Bytes that are read at a time.
PART = 1 << 20


class RemoteFile(io.RawIOBase):
    """A file behind an address whose server sends parts of it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.at = 0
        with self._open("bytes=0-0") as answer:
            self.length = int(answer.headers["Content-Range"].rpartition("/")[2])

    def _open(self, part: str) -> io.BufferedIOBase:
        request = urllib.request.Request(self.address, headers={"Range": part})
        return urllib.request.urlopen(request, timeout=60)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = (
            offset
            + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.length}[whence]
        )
        return self.at

    def readinto(self, buffer: bytearray) -> int:
        wanted = min(len(buffer), self.length - self.at)
        if wanted <= 0:
            return 0
        with self._open(f"bytes={self.at}-{self.at + wanted - 1}") as answer:
            part = answer.read()
        buffer[: len(part)] = part
        self.at += len(part)
        return len(part)


def address_of(requirement: str) -> str:
    """Where pip would take the wheel of a requirement from."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary, "report.json")
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--no-deps",
        ]
        command += [
            "--ignore-installed",
            "--target",
            temporary,
            "--report",
            str(report),
        ]
        command += ["--python-version", "312", "--only-binary", ":all:"]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        subprocess.run([*command, requirement], check=True)
        (found,) = json.loads(report.read_text())["install"]
        return str(found["download_info"]["url"])


def extract(requirement: str, names: tuple[str, ...], into: Path) -> None:
    """Puts the files of a requirement's wheel whose names begin so into a folder."""
    remote = io.BufferedReader(RemoteFile(address_of(requirement)), PART)
    with zipfile.ZipFile(remote) as archive:
        for name in archive.namelist():
            if name.startswith(names) and not name.endswith("/"):
                archive.extract(name, into)


def main(folder: Path, versions: tuple[str, ...], *, with_libraries: bool) -> None:
    """Fetches what is missing in the folder."""
    for version in versions:
        torch = f"torch=={version}"
        if not (folder / version / "torch" / "include").exists():
            extract(torch, HEADERS, folder / version)
        if with_libraries and not (folder / version / "torch" / "lib").exists():
            extract(torch, LIBRARIES, folder / version)
    for requirement in CUDA:
        extract(requirement, ("nvidia/cu13/include/",), folder)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--libraries"]
    if not arguments:
        sys.exit(__doc__)
    main(
        Path(arguments[0]),
        tuple(arguments[1:]) or VERSIONS,
        with_libraries="--libraries" in sys.argv,
    )
