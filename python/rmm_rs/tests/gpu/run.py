"""Tests and prices of the Python package on a GPU machine that has no Rust and no network.

    run.sh WHEELS OUT [--seconds 470] [--only prices,cupy] [--stress 40]

WHEELS is a folder: a wheel whose package the machine has already is left out, but for ours. They
are installed into a folder of their own, that stands before what the machine has. Each step is a
process group with a time limit and a log.

| file in OUT | |
|---|---|
| summary.md | a row for each step, then the failures, and why tests were skipped |
| prices.md, prices.json | prices beside RMM's package |
| logs.tar.gz | the log of each step, and its JUnit |

All are written again after each step, so they are there when the run is stopped. The exit status is
1 if a step failed. With `RMM_CUDA_LIBRARY` set, the steps run on that driver instead: what needs
kernels skips.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
ROOT = HERE.parents[3]

#: Wheels that are installed whatever the machine has.
OURS = ("rmm_rs", "rmm_rs_plugin_cu13")
#: Wheels that only prices see: our own suite has to run without them.
PEER = ("rmm_cu13", "librmm_cu13", "rapids_logger")
#: The exit status of pytest if no test ran.
NO_TESTS = 5
#: It compares the bytes that the device has free, and no other process may change them.
ALONE = "tests/test_resources.py::test_a_pool_knows_its_size"


@dataclasses.dataclass
class Step:
    """A command with a time limit; tests write JUnit."""

    name: str
    limit: float
    command: list[str]
    #: Without it the step is left out.
    needs: Path | None = None
    with_peer: bool = False
    is_test: bool = False
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0
    result: str = "not run"
    failures: list[str] = dataclasses.field(default_factory=list)
    reasons: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)


def installed(name: str) -> bool:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(name))
    return False


def install(wheels: Path, site: Path, peer: Path) -> str:
    """Installs what is missing into a folder, and RMM into another; says what that was."""
    chosen: dict[Path, list[str]] = {site: [], peer: []}
    for wheel in sorted(wheels.glob("*.whl")):
        name = wheel.name.split("-")[0]
        if name in PEER:
            chosen[peer].append(str(wheel))
        elif name in OURS or not installed(name):
            chosen[site].append(str(wheel))
    for folder, files in chosen.items():
        if files:
            pip_install(folder, files)
    return ", ".join(Path(wheel).name for files in chosen.values() for wheel in files)


def pip_install(folder: Path, wheels: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += [
        "--no-compile",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--target",
        str(folder),
    ]
    done = subprocess.run(
        [*command, *wheels], capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode:
        sys.exit(f"pip: {done.stderr}")


def steps(arguments: argparse.Namespace) -> list[Step]:
    python = sys.executable
    # Other plug-ins of the machine would warn, and warnings are errors in the package's own suite.
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs"]

    def test(name: str, limit: float, path: Path, *options: str) -> Step:
        command = [*pytest, f"--junit-xml=LOGS/{name}.xml", *options, str(path)]
        return Step(name, limit, command, needs=Path(str(path).partition("::")[0]), is_test=True)

    prices = [python, str(HERE / "prices.py"), str(arguments.out), "--packages", arguments.packages]
    prices += ["--limit", str(arguments.prices), "--libraries", arguments.libraries]
    prices += ["--milliseconds", str(arguments.milliseconds)]
    default = ("-W", "default")
    # Most tests of the suite start processes, each with a context of its own.
    has_xdist = importlib.util.find_spec("xdist") is not None
    parallel = ("-p", "xdist.plugin", "-n", "4") if has_xdist else ()
    stress = TESTS / "stress.py"
    return [
        Step("environment", 60, [python, str(HERE / "environment.py")]),
        test("cupy", 90, HERE / "test_cupy.py", *default),
        test("registration", 90, HERE / "test_registration.py", *default),
        test("checkpoint", 120, HERE / "test_checkpoint.py", *default),
        test("torch", 240, HERE / "test_torch.py", *default),
        Step("prices", arguments.prices + 60, prices, with_peer=True),
        test("dask", 120, HERE / "test_dask_cluster.py", *default),
        test("suite", 240, TESTS, f"--ignore={HERE}", f"--deselect={ALONE}", *parallel),
        test("alone", 30, TESTS.parent / ALONE),
        Step(
            "stress",
            arguments.stress + 60,
            [python, str(stress), "--minutes", str(arguments.stress / 60)],
            needs=stress,
        ),
    ]


def run(step: Step, logs: Path, limit: float, environment: dict[str, str]) -> None:
    """Runs a step, and ends its whole process group after the limit."""
    begin = time.monotonic()
    command = [word.replace("LOGS", str(logs)) for word in step.command]
    with (logs / f"{step.name}.log").open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout=limit)
            # All tests of the file were skipped, as the summary says.
            is_skipped = step.is_test and status == NO_TESTS
            step.result = "passed" if status == 0 or is_skipped else f"exit status {status}"
        except subprocess.TimeoutExpired:
            step.result = f"stopped after {limit:.0f} s"
        # Children that are left, such as workers, too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    step.seconds = time.monotonic() - begin
    if step.is_test:
        read_junit(step, logs / f"{step.name}.xml")
    if step.result != "passed" and not step.failures:
        step.failures.append("\n".join(tail(logs / f"{step.name}.log", 15)))


def tail(path: Path, count: int) -> list[str]:
    return path.read_text(errors="replace").splitlines()[-count:]


def read_junit(step: Step, path: Path) -> None:
    if not path.exists():
        return
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        broken = [found for kind in ("failure", "error") if (found := case.find(kind)) is not None]
        left_out = case.find("skipped")
        if broken:
            step.failed += 1
            message = (broken[0].get("message") or "").strip()
            step.failures.append(f"{name}: {message[:600]}")
        elif left_out is not None:
            step.skipped += 1
            of_file = re.search(r"Skipped: (.*)['\"]\)", left_out.text or "")
            step.reasons[of_file[1] if of_file else left_out.get("message") or "no reason"] += 1
        else:
            step.passed += 1


def summary(done: list[Step], wheels: str, logs: Path) -> str:
    lines = ["# The Python package on a GPU", "", f"Installed: {wheels}", ""]
    with contextlib.suppress(OSError):
        lines += ["```", *tail(logs / "environment.log", 40), "```", ""]
    lines += [
        "| step | result | passed | failed | skipped | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for step in done:
        numbers = [step.passed, step.failed, step.skipped] if step.is_test else ["", "", ""]
        cells = [step.name, step.result, *map(str, numbers), f"{step.seconds:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    for step in done:
        if step.failures:
            lines += ["", f"## {step.name}: failures", ""]
            for failure in step.failures[:30]:
                lines += ["```", re.sub(r"\x1b\[[0-9;]*m", "", failure), "```"]
    reasons = [(step.name, reason, n) for step in done for reason, n in step.reasons.items()]
    if reasons:
        lines += ["", "## Skipped", "", "| step | tests | why |", "|---|---|---|"]
        lines += [f"| {name} | {n} | {reason} |" for name, reason, n in reasons]
    return "\n".join(lines) + "\n"


def write(done: list[Step], wheels: str, logs: Path, out: Path) -> None:
    (out / "summary.md").write_text(summary(done, wheels, logs))
    with tarfile.open(out / "logs.tar.gz", "w:gz") as archive:
        archive.add(logs, "logs")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wheels", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=470, help="of the whole run")
    parser.add_argument("--only", help="names of steps, with commas between")
    parser.add_argument("--stress", type=float, default=40, help="seconds of stress.py")
    parser.add_argument("--prices", type=float, default=120, help="seconds of prices")
    parser.add_argument("--packages", default="rmm,rmm_rs", help="of prices: the peer, and ours")
    parser.add_argument("--libraries", default="cupy,torch", help="of prices")
    parser.add_argument("--milliseconds", type=float, default=15, help="of one measurement")
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="rmm-rs-gpu-"))
    logs, site, peer = (scratch / name for name in ("logs", "site", "peer"))
    logs.mkdir()
    begin = time.monotonic()
    wheels = install(arguments.wheels, site, peer)

    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    path = [str(site), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(path)
    if "RMM_CUDA_LIBRARY" not in environment:
        environment["RMM_DRIVER"] = "cuda"

    chosen = arguments.only.split(",") if arguments.only else None
    done: list[Step] = []
    for step in steps(arguments):
        if chosen is not None and step.name not in chosen:
            continue
        done.append(step)
        rest = arguments.seconds - (time.monotonic() - begin)
        if step.needs is not None and not step.needs.exists():
            step.result = "not there"
        elif rest < 10:
            step.result = "no time left"
        else:
            folders = environment["PYTHONPATH"] + (f"{os.pathsep}{peer}" if step.with_peer else "")
            run(step, logs, min(step.limit, rest), {**environment, "PYTHONPATH": folders})
        print(f"{step.name}: {step.result}, {step.seconds:.0f} s", flush=True)
        write(done, wheels, logs, arguments.out)
    print((arguments.out / "summary.md").read_text())
    prices = arguments.out / "prices.md"
    if any(step.name == "prices" for step in done) and prices.exists():
        print(prices.read_text())
    shutil.rmtree(scratch, ignore_errors=True)
    return int(any(step.result not in ("passed", "not there") for step in done))


if __name__ == "__main__":
    sys.exit(main())
