"""PyTorch's own tests of its CUDA allocator, over rmm-rs and over native, and what differs.

    python suites.py TESTS --wheels WHEELS --out OUT [--allocators NAME,...] [-k EXPRESSION]

TESTS is the folder `test` of a checkout of PyTorch, of the release that is installed, or one with
the files below alone. WHEELS has the wheels of rmm-rs, rmm-rs-torch, pytest and what the tests
import (expecttest, psutil). In OUT: results.txt (the table), results.json, and the output of each
process. A test that hangs or that kills its process is lost alone. Tests that were native's to pass
and fail with another allocator are run once more, by themselves, and have to be in
suites_expected.txt with a reason: if not, the exit status is 1. `--rmm PACKAGE` also runs RMM's
tests for PyTorch, of the folder `python/rmm/rmm` of a checkout of RMM.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).resolve().parent
FILES = ("test_cuda.py", "inductor/test_cudagraph_trees.py")
#: Classes with nothing of the allocator in them.
LEFT_OUT = ("TestGDS", "TestCompileKernel", "TestCudaOptims*", "TestCudaAutocast", "TestFXMemory*")
#: Tests that need most of the device's memory, or look at all of it, or limit it: one at a time.
ALONE = re.compile(
    "oom|out_of_memory|fraction|limited_memory|large_tensor|huge|memory_used|workspace_memory"
    "|garbage_collect|max_split|fuzz|concurrent|leak|index_out_of_bounds|loop_overflow|prod_large"
    "|ctx_multithread|multinomial_invalid"
)
#: Tests of one process.
CHUNK = 25
#: Seconds until the first test begins: several processes at once import PyTorch's compiler.
START = 240

Result = dict[str, Any]


class Suites:
    """The tests, and where they run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.tests: Path = options.tests.resolve()
        self.out: Path = options.out.resolve()
        self.path = f"{HERE}{os.pathsep}{machine.install(options.wheels)}"
        self.files: list[str] = options.files.split(",")
        self.limit: float = options.limit
        self.processes: int = options.processes
        self.deadline = time.monotonic() + options.budget
        self.wanted = re.compile(options.word)
        self.number = 0
        self.lock = threading.Lock()

    def _pytest(self, allocator: str, arguments: list[str], lines: Path) -> subprocess.Popen[str]:
        variables = machine.environment(
            allocator,
            self.path,
            RESULT_LINES=str(lines),
            PYTHONDONTWRITEBYTECODE="1",
            OMP_NUM_THREADS="4",
            TORCHINDUCTOR_COMPILE_THREADS="2",
            TORCHINDUCTOR_CACHE_DIR=str(lines.with_suffix(".cache")),
            # Tests that compile an allocator delete it.
            TORCH_EXTENSIONS_DIR=str(lines.with_suffix(".cache") / "extensions"),
            EXPECTED_BACKEND=machine.backend(allocator),
        )
        command = [sys.executable, "-m", "pytest", "-q", "-rN"]
        command += ["-p", "no:cacheprovider", "-p", "result_lines", "-W", "ignore"]
        with lines.with_suffix(".txt").open("w") as log:
            return subprocess.Popen(
                [*command, "--rootdir", str(self.tests), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=self.tests,
                text=True,
            )

    def _lines(self, name: str) -> Path:
        with self.lock:
            self.number += 1
            return self.out / f"{name}_{self.number:03}.jsonl"

    def collect(self) -> list[str]:
        """The tests that are to run."""
        found: list[str] = []
        for file in self.files:
            if not (self.tests / file).is_file():
                print(f"{self.tests / file} is missing: its tests do not run")
                continue
            lines = self._lines("collect")
            process = self._pytest("native", ["--collect-only", file], lines)
            try:
                process.wait(180)
            except subprocess.TimeoutExpired:
                machine.end(process)
            here = [entry for entry in _read(lines) if "collected" in entry]
            if not here:
                print(f"{file} cannot be imported:")
                print(lines.with_suffix(".txt").read_text()[-3000:])
                continue
            found += here[0]["collected"]
        wanted = []
        for test in found:
            class_name = test.split("::")[1] if test.count("::") > 1 else ""
            if any(fnmatch.fnmatch(class_name, pattern) for pattern in LEFT_OUT):
                continue
            if self.wanted.search(test):
                wanted.append(test)
        return wanted

    def run_chunk(self, allocator: str, tests: list[str], results: dict[str, Result]) -> None:
        """Runs tests in one process after the other until each has a result."""
        left = list(tests)
        while left:
            if time.monotonic() > self.deadline:
                return
            lines = self._lines(allocator.replace("(", "-").rstrip(")"))
            process = self._pytest(allocator, left, lines)
            hung = not self._watch(process, lines)
            entries = _read(lines)
            for entry in entries:
                if "end" in entry and _is_news(results.get(entry["end"]), entry):
                    results[entry["end"]] = entry
            begun = [entry["begin"] for entry in entries if "begin" in entry]
            died = [test for test in begun if test not in results]
            if died:
                why = "hung" if hung else f"its process ended with status {process.returncode}"
                results[died[-1]] = {"outcome": "failed", "why": f"{why}: see {lines.stem}.txt"}
            elif not begun:
                why = f"pytest ran no test: see {lines.stem}.txt"
                results |= {test: {"outcome": "failed", "why": why} for test in left}
            rest = [test for test in left if test not in results]
            if len(rest) == len(left):
                return
            left = rest

    def _watch(self, process: subprocess.Popen[str], lines: Path) -> bool:
        """Waits for a process. False if no test began or ended within the limit, or time is up."""
        size, changed = 0, time.monotonic()
        while True:
            try:
                process.wait(1)
                return True
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            current = lines.stat().st_size if lines.exists() else 0
            if current != size:
                size, changed = current, now
            limit = self.limit if size > 0 else max(self.limit, START)
            if now - changed > limit or now > self.deadline:
                machine.end(process)
                return False

    def run(self, allocator: str, tests: list[str]) -> dict[str, Result]:
        """Runs tests in several processes, and those that need the device in one."""
        results: dict[str, Result] = {}
        alone = [test for test in tests if ALONE.search(test)]
        together = [test for test in tests if not ALONE.search(test)]
        # Every process gets tests of each part of a file.
        count = max(self.processes, -(-len(together) // CHUNK))
        chunks = [chunk for chunk in (together[i::count] for i in range(count)) if chunk]

        def work() -> None:
            while True:
                with self.lock:
                    if not chunks:
                        return
                    chunk = chunks.pop()
                self.run_chunk(allocator, chunk, results)

        threads = [threading.Thread(target=work) for _ in range(self.processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.run_chunk(allocator, alone, results)
        return results


def _is_news(known: Result | None, entry: Result) -> bool:
    """A failure of a tear-down comes after the result."""
    return known is None or known["outcome"] == "passed"


def _read(lines: Path) -> list[Result]:
    if not lines.exists():
        return []
    found = []
    for line in lines.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            # The process died while it wrote.
            continue
    return found


def expected_failures() -> list[tuple[str, str]]:
    """The patterns and reasons of the list."""
    lines = (HERE / "suites_expected.txt").read_text().splitlines()
    pairs = [line.split(None, 1) for line in lines if line.strip() and line[0] != "#"]
    return [(pattern, reason.strip()) for pattern, reason in pairs]


def reason_for(test: str, expected: list[tuple[str, str]]) -> str | None:
    name = "::".join(test.split("::")[1:])
    return next((why for pattern, why in expected if fnmatch.fnmatch(name, pattern)), None)


def compare(native: dict[str, Result], ours: dict[str, Result]) -> dict[str, list[str]]:
    """Tests by what became of them."""
    groups: dict[str, list[str]] = {
        name: [] for name in ("passed", "differ", "unexpected", "both fail", "skipped", "lost")
    }
    expected = expected_failures()
    for test, result in native.items():
        mine = ours.get(test)
        if mine is None:
            group = "lost"
        elif mine["outcome"] == "passed":
            group = "passed"
        elif mine["outcome"] == "skipped":
            group = "skipped" if result["outcome"] == "skipped" else "unexpected"
        elif result["outcome"] != "passed":
            group = "both fail"
        else:
            group = "differ" if reason_for(test, expected) else "unexpected"
        groups[group].append(test)
    return groups


def run_again(suites: Suites, results: dict[str, dict[str, Result]]) -> None:
    """Runs failures once more, with nothing beside them: those that decide, and then native's."""
    native = results["native"]

    def again(name: str, tests: list[str]) -> None:
        for test in tests:
            first, second = results[name][test], dict[str, Result]()
            suites.run_chunk(name, [test], second)
            if second.get(test, {}).get("outcome") == "passed":
                results[name][test] = {**second[test], "why": f"failed at first: {first['why']}"}

    # A failed test keeps its tensors, by its traceback, which can make the next one fail.
    others = [name for name in results if name != "native"]
    for name in others:
        again(name, compare(native, results[name])["unexpected"])
    for name in others:
        both = compare(native, results[name])["both fail"]
        again("native", both)
        again(name, [test for test in both if native[test]["outcome"] == "passed"])


def report(name: str, native: dict[str, Result], ours: dict[str, Result]) -> tuple[str, int]:
    """The table of an allocator, and how many failures are unexpected."""
    groups, expected = compare(native, ours), expected_failures()
    counts = ", ".join(f"{len(tests)} {group}" for group, tests in groups.items())
    rows = [[f"with {name}", "test", "why"]]
    for group in ("unexpected", "differ"):
        for test in groups[group]:
            said = ours[test]["why"]
            why = f"expected: {reason_for(test, expected)}" if group == "differ" else said
            rows.append(["FAILED" if group == "unexpected" else "differs", test, why[:240]])
    for group in ("both fail", "lost"):
        rows += [[group, test, native[test]["why"][:160]] for test in groups[group]]
    for test in groups["passed"]:
        if reason_for(test, expected):
            rows.append(["passes", test, "the list says that it fails"])
        elif native[test]["outcome"] == "failed":
            rows.append(["passes", test, f"native fails: {native[test]['why'][:120]}"])
    return f"{name}: {counts}\n{machine.table(rows)}\n", len(groups["unexpected"])


def rmm_tests(suites: Suites, package: Path) -> tuple[str, int]:
    """RMM's tests for PyTorch over this package's alias, which takes five functions."""
    plugins = HERE.parents[3] / "xtask" / "rmm-tests" / "python"
    variables = machine.environment("native", f"{plugins}{os.pathsep}{suites.path}")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    command += ["-p", "rmm_rs.as_rmm", "-p", "rmm_tests.plugin", f"--rmm-package={package}"]
    command += [f"--rootdir={package.parent}", f"--confcutdir={package / 'tests'}"]
    command += [str(package / "tests" / "test_rmm_pytorch.py")]
    log = suites.out / "rmm.txt"
    status = machine.run(command, 120, variables, log)
    last = (log.read_text().strip().splitlines() or ["no output"])[-1]
    return f"RMM's tests for PyTorch: {last}\n", int(status != 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--out", type=Path, default=Path("suites"))
    parser.add_argument("--allocators", default="native,pool(cuda)")
    parser.add_argument("--files", default=",".join(FILES), help="below TESTS")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--limit", type=float, default=90, help="seconds for a test")
    parser.add_argument("--budget", type=float, default=560, help="seconds for everything")
    parser.add_argument("--native", type=Path, help="results.json of an earlier run, for native's")
    parser.add_argument("--rmm", type=Path, help="the folder python/rmm/rmm of RMM")
    parser.add_argument("-k", dest="word", default="", help="expression in the tests' names")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    suites = Suites(options)
    tests = suites.collect()
    print(f"{len(tests)} tests", flush=True)
    results: dict[str, dict[str, Result]] = {}
    if options.native:
        results["native"] = json.loads(options.native.read_text())["native"]
    for name in options.allocators.split(","):
        begin = time.monotonic()
        results[name] = suites.run(name, tests)
        print(f"{name}: {len(results[name])} results, {time.monotonic() - begin:.0f} s", flush=True)
        (suites.out / "results.json").write_text(json.dumps(results, indent=1))
    if "native" not in results or not tests:
        print("there is nothing to compare")
        return 1
    run_again(suites, results)
    (suites.out / "results.json").write_text(json.dumps(results, indent=1))
    texts, failed = [], 0
    for name in [name for name in results if name != "native"]:
        text, count = report(name, results["native"], results[name])
        texts.append(text)
        failed += count
    if options.rmm:
        text, count = rmm_tests(suites, options.rmm.resolve())
        texts.append(text)
        failed += count
    (suites.out / "results.txt").write_text("\n".join(texts))
    print("\n".join(texts))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
