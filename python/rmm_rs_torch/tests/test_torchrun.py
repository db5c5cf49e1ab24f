"""Processes of torchrun: as it begins them, with a stand-in for PyTorch; and with the real one, by
the command that the guide prints."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import programs
import pytest
from conftest import PYTHON, Run

pytest.importorskip("rmm_rs._rmm", reason="rmm-rs is not installed")

RANKS = 2  # and as many devices

RANK = """
import os
import torch

local = int(os.environ["LOCAL_RANK"])
assert torch.cuda.memory.get_allocator_backend() == "rmm-rs"
torch.cuda.set_device(local)
torch.cuda.init()

def free():
    found = []
    for device in range(2):
        torch.cuda.set_device(device)
        found.append(torch.cuda.free_memory())
    torch.cuda.set_device(local)
    return found

before = free()
block = torch.allocate(4 << 20)
taken = [old - new for old, new in zip(before, free())]
assert taken[local] >= 4 << 20 and taken[1 - local] == 0, taken
assert torch.cuda.current_device() == local
torch.free(block)
"""

TRAIN = """
import os
import torch

local, count = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
torch.cuda.set_device(local)
assert torch.cuda.memory.get_allocator_backend() == "rmm-rs"
kept = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
assert kept.device.index == local and torch.cuda.memory_reserved(local) >= kept.nbytes
assert all(torch.cuda.memory_reserved(device) == 0 for device in range(2) if device != local)
open(f"rank-{local}-of-{count}", "w").close()
"""


def of_rank(rank: int) -> dict[str, str]:
    """What torchrun sets for a process on a machine of its own."""
    alike = {"RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank}
    sizes = {"WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS, "ROLE_WORLD_SIZE": RANKS}
    numbers = {**alike, **sizes, "GROUP_RANK": 0, "MASTER_PORT": 29500}
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(value) for name, value in numbers.items()}}


@pytest.mark.parametrize(
    "variables",
    [
        {"RMM_RS_TORCH": "1", "RMM_RESOURCE": "pool(max=64MiB)"},
        {"RMM_RS_TORCH": "pool(max=64MiB)"},
        {"RMM_RS_TORCH": "1"},
    ],
    ids=["current pool", "pool", "cudaMalloc"],
)
def test_each_process_allocates_on_the_device_of_its_rank(
    run: Run, variables: dict[str, str]
) -> None:
    def begin(rank: int) -> str:
        return run(RANK, STAND_IN_AUTOLOAD="1", **variables, **of_rank(rank))

    with ThreadPoolExecutor(RANKS) as ranks:
        assert list(ranks.map(begin, range(RANKS))) == [""] * RANKS


@pytest.mark.parametrize("count", [1, RANKS])
@pytest.mark.parametrize("wanted", ["1", "pool"])
def test_torchrun_starts_what_the_guide_prints(
    environment: dict[str, str], tmp_path: Path, count: int, wanted: str
) -> None:
    text = (programs.ROOT / "docs" / "engines.md").read_text()
    (printed,) = re.findall(r"```sh\n(RMM_RS_TORCH=1 torchrun .*)\n```", text)
    command = printed.replace("--nproc-per-node 1", f"--nproc-per-node {count}")
    command = command.replace("RMM_RS_TORCH=1", f"RMM_RS_TORCH={wanted}")
    assert (command == printed) == ((count, wanted) == (1, "1"))
    (tmp_path / "train.py").write_text(TRAIN)
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        # The launcher of this interpreter, and no other server of this name.
        env={**environment, "PATH": f"{Path(str(PYTHON)).parent}{os.pathsep}{os.environ['PATH']}"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(path.name for path in tmp_path.glob("rank-*"))
    assert names == [f"rank-{rank}-of-{count}" for rank in range(count)]
    assert "has no effect" not in done.stderr, done.stderr
