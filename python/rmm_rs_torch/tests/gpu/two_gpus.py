"""PyTorch on two GPUs of one host, with each allocator.

    python two_gpus.py --wheels WHEELS --out OUT [--steps WORD,...] [--allocators NAME,...]

WHEELS is a folder with the wheels of rmm-rs and rmm-rs-torch; without it, what is installed is
tested. In OUT: results.txt (the table), results.json, and the output of each program. Each program
in `two_gpus` is a process of its own, or two that torchrun starts, with a limit; after a failure
the rest goes on. The exit status is 1 if something failed, and 0 if there are not two GPUs.
"""

from __future__ import annotations

import argparse
import json
import math
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).resolve().parent / "two_gpus"
ALL = ("pool", "pool(cuda)", "native", "expandable")
MODELS = ("perceptron", "transformer")
THREE = ("pool", "pool(cuda)", "native")
#: Losses differ by less: the sums of each allocator are the same, in the same order.
TOLERANCE = 1e-5


@dataclass
class Step:
    """A program with one allocator."""

    name: str
    program: str
    allocator: str
    limit: float
    arguments: list[str] = field(default_factory=list)
    ranks: int = 1
    #: The results that it has to have.
    expected: list[str] = field(default_factory=list)
    #: Whether its arguments are its checks, so that another process can do those that are left.
    can_resume: bool = False

    def command(self, arguments: list[str]) -> list[str]:
        program = [str(HERE / self.program), *arguments]
        if self.ranks == 1:
            return [sys.executable, *program]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1"]
        launcher += [f"--nproc-per-node={self.ranks}", "--max-restarts=0"]
        return [*launcher, "--master-addr=127.0.0.1", f"--master-port={port}", *program]


#: The functions of `devices.py`, in their order.
CHECKS = [
    "copies",
    "copies_by_kernels",
    "counts_of_each",
    "frees_on_another_device",
    "streams_of_another_device",
    "recorded_streams_across",
    "graphs_on_the_second",
    "out_of_memory_of_one",
    "reduce_overhead_on_the_second",
]


def steps() -> list[Step]:
    found = []
    for name in THREE:
        pairs = ["cuda:0 to cuda:1", "cuda:1 to cuda:0", "cuda:0 to cuda:0"]
        found.append(Step("bandwidth", "bandwidth.py", name, 60, expected=pairs))
    for name in THREE:
        step = Step("devices", "devices.py", name, 150, CHECKS, expected=CHECKS)
        step.can_resume = True
        found.append(step)
    for name in THREE:
        both = [f"shared, cuda:{index}" for index in range(2)]
        found.append(Step("share", "share.py", name, 90, expected=both))
    for name in THREE:
        sums = [f"replayed sums, rank {rank}" for rank in range(2)]
        found.append(Step("graph", "graph_collective.py", name, 90, ranks=2, expected=sums))
    turns = [f"sleeps in turn, rank {rank}" for rank in range(2)]
    found.append(Step("sleep", "sleeping_rank.py", "pool", 90, ranks=2, expected=turns))
    for kind in ("ddp", "fsdp"):
        models = [f"{model}, rank {r}" for model in MODELS for r in range(2)]
        for name in ALL:
            step = Step(kind, "training.py", name, 100, [kind], ranks=2, expected=models)
            found.append(step)
    return found


def results_in(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text(errors="replace").splitlines()
    mark = "RESULT "
    return [json.loads(line.removeprefix(mark)) for line in lines if line.startswith(mark)]


def run(step: Step, out: Path, path: str, deadline: float) -> list[dict[str, Any]]:
    """Runs a step, and returns a result for each that it has to have."""
    results: dict[str, dict[str, Any]] = {}
    variables = machine.environment(
        step.allocator,
        path,
        WANTED_BACKEND=machine.backend(step.allocator),
        WANTED_ALLOCATOR=step.allocator,
        CUBLAS_WORKSPACE_CONFIG=":4096:8",
        OMP_NUM_THREADS="4",
    )
    end = min(time.monotonic() + step.limit, deadline)
    for attempt in range(len(step.expected)):
        left = [name for name in step.expected if name not in results]
        remaining = end - time.monotonic()
        if not left or remaining <= 1:
            break
        name = step.allocator.replace("(", "-").rstrip(")")
        log = out / f"{step.name}_{name}{f'_{attempt}' if attempt else ''}.txt"
        arguments = left if step.can_resume else step.arguments
        status = machine.run(step.command(arguments), remaining, variables, log)
        found = {result["name"]: result for result in results_in(log)}
        results |= found
        missing = [name for name in left if name not in found]
        if step.can_resume and status != 0:
            # A program ends after a failure that it has reported. If it died, it was in the first
            # check without a result.
            missing = [] if any(not result["passed"] for result in found.values()) else missing[:1]
        ended = "was ended at its limit" if status is None else f"ended with status {status}"
        results |= lost(missing, f"no result: the program {ended}, see {log.name}")
    results |= lost([n for n in step.expected if n not in results], "there was no time left")
    return [{"step": step.name, "allocator": step.allocator, **r} for r in results.values()]


def lost(names: list[str], why: str) -> dict[str, dict[str, Any]]:
    return {name: {"name": name, "passed": False, "why": why, "figures": {}} for name in names}


def compare_losses(rows: list[dict[str, Any]]) -> None:
    """Fails the rows whose losses are not native's."""
    native = {
        (row["step"], row["name"]): row["figures"]["losses"]
        for row in rows
        if row["allocator"] == "native" and "losses" in row["figures"]
    }
    for row in rows:
        losses = row["figures"].pop("losses", None)
        expected = native.get((row["step"], row["name"]))
        if losses is None:
            continue
        row["losses"] = losses
        if expected is None:
            row["passed"], row["why"] = False, "there are no losses of native to compare"
            continue
        row["figures"]["losses"] = "equal" if losses == expected else "close"
        if not all(math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(losses, expected)):
            row["passed"], row["why"] = False, f"losses {losses[-1]}, native {expected[-1]}"
            row["figures"]["losses"] = "differ"


def shown(value: object) -> str:
    """Bytes as MiB."""
    if isinstance(value, int) and value >= 1 << 20:
        return f"{value / (1 << 20):.1f} MiB"
    return str(value)


def table(rows: list[dict[str, Any]]) -> str:
    lines = [["step", "allocator", "what", "result", "figures or reason"]]
    for row in rows:
        figures = ", ".join(f"{name} {shown(value)}" for name, value in row["figures"].items())
        result = "passed" if row["passed"] else "FAILED"
        what = "; ".join(part for part in (row["why"], figures) if part)
        lines.append([row["step"], row["allocator"], row["name"], result, what[:300]])
    return machine.table(lines)


def devices(path: str) -> int:
    """How many GPUs PyTorch sees, in a process of its own."""
    code = "import torch; print('GPUS', torch.cuda.device_count())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=machine.environment("native", path),
        check=False,
    )
    counts = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("GPUS ")]
    if not counts:
        raise SystemExit(f"PyTorch does not start:\n{done.stdout}{done.stderr}")
    return int(counts[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--out", type=Path, default=Path("two-gpus"))
    parser.add_argument("--steps", default="", help="such as ddp,graph")
    parser.add_argument("--allocators", default=",".join(ALL))
    parser.add_argument("--budget", type=float, default=540, help="seconds for everything")
    parser.add_argument("--any-number", action="store_true", help="run also with less than two")
    options = parser.parse_args()
    deadline = time.monotonic() + options.budget
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    path = machine.install(options.wheels)
    count = devices(path)
    if count < 2 and not options.any_number:
        text = f"SKIPPED: {count} GPUs here, and these programs need 2"
        (out / "results.txt").write_text(f"{text}\n")
        (out / "results.json").write_text(json.dumps({"skipped": text}))
        print(text)
        return 0
    wanted = [word for word in options.steps.split(",") if word]
    allocators = options.allocators.split(",")
    rows: list[dict[str, Any]] = []
    for step in steps():
        if (wanted and step.name not in wanted) or step.allocator not in allocators:
            continue
        begin = time.monotonic()
        found = run(step, out, path, deadline)
        passed = sum(row["passed"] for row in found)
        seconds = time.monotonic() - begin
        name = f"{step.name} {step.allocator}"
        print(f"{name}: {passed} of {len(found)}, {seconds:.0f} s", flush=True)
        rows += found
        (out / "results.json").write_text(json.dumps(rows, indent=1))
    compare_losses(rows)
    (out / "results.json").write_text(json.dumps(rows, indent=1))
    text = table(rows)
    (out / "results.txt").write_text(f"{text}\n")
    print(text)
    failed = sum(not row["passed"] for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
