"""What the runners of this folder share: the wheels, the variables of an allocator, and processes
that end within a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

#: The variables that choose an allocator of PyTorch's for a process and its children.
ALLOCATORS = {
    "native": {},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "pool": {"RMM_RS_TORCH": "pool"},
    "pool(cuda)": {"RMM_RS_TORCH": "pool(cuda)"},
}
#: What else chooses one.
_OTHERS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "RMM_RESOURCE", "RMM_RS_TORCH")
#: Seconds between the request to end and the kill.
_GRACE = 10


def backend(allocator: str) -> str:
    """What `torch.cuda.memory.get_allocator_backend` says of it."""
    return "rmm-rs" if "RMM_RS_TORCH" in ALLOCATORS[allocator] else "native"


def install(wheels: Path | None) -> str:
    """Installs a folder's wheels into a folder of their own, and returns what PYTHONPATH has to be
    for them. The sources of this repository are not on it: what is installed is tested."""
    given = os.environ.get("PYTHONPATH", "")
    if wheels is None:
        return given
    site = tempfile.mkdtemp(prefix="site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
    command += ["--no-compile", "--no-cache-dir", "--target", site]
    subprocess.run([*command, *sorted(map(str, wheels.glob("*.whl")))], check=True)
    return f"{site}{os.pathsep}{given}" if given else site


def environment(allocator: str, path: str, **more: str) -> dict[str, str]:
    """The variables of a process with this allocator."""
    kept = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    kept.pop("RMM_CUDA_LIBRARY", None)
    kept.setdefault("RMM_DRIVER", "cuda")
    return {**kept, "PYTHONPATH": path, **ALLOCATORS[allocator], **more}


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        found.setdefault(parent, []).append(int(entry.name))
    return found


def _family(pid: int) -> list[int]:
    """A process and its descendants: torchrun's workers are sessions of their own."""
    children, found, left = _children(), [], [pid]
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def end(process: subprocess.Popen[str]) -> None:
    """Ends a process with all that it has started."""
    family = _family(process.pid)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in family:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue


def run(command: list[str], limit: float, variables: dict[str, str], log: Path) -> int | None:
    """Runs a command, and returns its status; `None` if it had to be ended at its limit. What it
    prints is in `log`."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=variables,
            cwd=log.parent,
            text=True,
        )
        try:
            return process.wait(max(limit, 1))
        except subprocess.TimeoutExpired:
            end(process)
            return None


def table(rows: list[list[str]]) -> str:
    """Columns as wide as they must be. The first row is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
