"""What the guides print for PyTorch, with the real one on the software driver, whose kernels do
nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import programs
import pytest
from conftest import PYTHON

#: Page, a part of the block, what follows it, and what that prints.
PRINTED = [
    (
        "docs/pytorch.md",
        "before the first use of CUDA",
        "print(torch.cuda.memory.get_allocator_backend(), torch.zeros(9, device='cuda').shape[0])",
        "rmm-rs 9",
    ),
    (
        "docs/cuda-graphs.md",
        "torch.cuda.CUDAGraph()",
        "print(torch.cuda.memory_allocated() > 4_000_000)",
        "True",
    ),
    (
        "docs/c.md",
        "CUDAPluggableAllocator",
        "x = torch.zeros(1000, device='cuda'); x.record_stream(torch.cuda.Stream()); del x\n"
        "torch.cuda.synchronize()\n"
        "print(torch.cuda.memory.get_allocator_backend())",
        "pluggable",
    ),
    (
        "docs/log-formats.md",
        "_record_memory_history",
        "import pathlib; print(pathlib.Path('snapshot.pickle').stat().st_size > 0)",
        "True",
    ),
]


@pytest.mark.parametrize(("page", "part", "after", "printed"), PRINTED)
def test_it_runs(
    environment: dict[str, str], tmp_path: Path, page: str, part: str, after: str, printed: str
) -> None:
    code = programs.printed_program(page, part)
    # What a kernel would have computed.
    code = "".join(line for line in code.splitlines(True) if not line.startswith("assert "))
    done = subprocess.run(
        [str(PYTHON), "-c", f"import torch\n{code}\n{after}"],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr
