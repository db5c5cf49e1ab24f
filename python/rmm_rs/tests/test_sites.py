"""Where in Python memory was allocated: in logs, trackers, recorders and reports of failures."""

from __future__ import annotations

import csv
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import rmm_rs
from rmm_rs import mr


def rows(path: Path | str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def line() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_log_names_tag_line_and_device(tmp_path: Path) -> None:
    upstream = mr.CudaMemoryResource()
    log = mr.LoggingResourceAdaptor(upstream, tmp_path / "log.csv", columns=["tag", "Site", "Device"])

    def load() -> int:
        with rmm_rs.tag('a, "b"'):
            return log.allocate(1000)

    pointer, called = load(), line()
    log.deallocate(pointer, 1000)
    log.flush()
    allocated, freed = rows(log.get_file_name())
    assert allocated["Tag"] == 'a, "b"'
    innermost, outer, *_ = allocated["Site"].split(" < ")
    assert innermost.startswith(f"{__file__}:")
    assert innermost.endswith(f" {load.__qualname__}")
    assert outer == f"{__file__}:{called} test_a_log_names_tag_line_and_device"
    assert allocated["Device"] == freed["Device"] == "0"
    assert (freed["Action"], freed["Tag"], freed["Site"]) == ("free", "", "")


def test_a_log_has_the_columns_of_rmm_by_default(tmp_path: Path) -> None:
    log = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "log.csv")
    log.deallocate(log.allocate(10), 10)
    log.flush()
    assert list(rows(log.get_file_name())[0]) == "Thread Time Action Pointer Size Stream".split()
    with pytest.raises(ValueError, match="no column is called"):
        mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "log.csv", columns=["Thread"])


def test_a_site_that_is_remembered_is_that_of_its_code_and_line(tmp_path: Path) -> None:
    log = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "log.csv", columns=["Site"])
    expected = []
    for number in range(100):
        # Code that is gone after its turn, whose memory the next one may get.
        text = f"def f{number}(log):\n" + "    log.deallocate(log.allocate(10), 10)\n" * 2
        names: dict[str, Callable[[object], None]] = {}
        exec(compile(text, f"<made {number}>", "exec"), names)
        for _ in range(3):
            names[f"f{number}"](log)
            expected += [f"<made {number}>:{line} f{number}" for line in (2, 3)]
        names.clear()

    # A short name of a file, so that the length of a site cuts none of its four frames.
    text = """
def down(log, depth):
    if depth == 0:
        log.deallocate(log.allocate(10), 10)
    else:
        down(log, depth - 1)
"""
    deep: dict[str, Callable[[object, int], None]] = {}
    exec(compile(text, "<deep>", "exec"), deep)
    for _ in range(3):
        for depth in (0, 1, 6):
            deep["down"](log, depth)
    log.flush()
    sites = [row["Site"] for row in rows(log.get_file_name()) if row["Action"] == "allocate"]
    assert [site.split(" < ")[0] for site in sites[: len(expected)]] == expected
    depths = [sum("down" in frame for frame in site.split(" < ")) for site in sites[len(expected) :]]
    assert depths == [1, 2, 4] * 3


def test_a_pending_exception_and_a_thread_without_python_lines_change_nothing(tmp_path: Path) -> None:
    log = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "log.csv", columns=["Site"])
    pointers: list[int] = []
    thread = threading.Thread(target=lambda: pointers.append(log.allocate(10)))
    thread.start()
    thread.join()
    with pytest.raises(KeyError, match="kept"):
        try:
            raise KeyError("kept")
        finally:
            pointers.append(log.allocate(20))
    for pointer, size in zip(pointers, [10, 20], strict=True):
        log.deallocate(pointer, size)
    log.flush()
    written = rows(log.get_file_name())
    assert all(__file__ in row["Site"] for row in written[:2])


def test_a_tracker_names_the_line_of_the_program() -> None:
    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource(), capture_stacks=True)
    buffer = rmm_rs.DeviceBuffer(size=1000, mr=tracking)
    place = f"{__file__}:{line() - 1} in "
    report = tracking.get_outstanding_allocations_str()
    assert place in report
    assert "rmm-py" not in report
    del buffer


def test_a_recorder_keeps_the_last_calls(tmp_path: Path) -> None:
    recorder = mr.RecorderResourceAdaptor(mr.CudaMemoryResource(), events=2)
    blocks = [recorder.allocate(size) for size in (100, 200, 300)]
    recorder.save(tmp_path / "kept.csv")
    written = rows(tmp_path / "kept.csv")
    assert [row["Size"] for row in written[:-1]] == ["100", "200", "300"]
    assert (written[-1]["Action"], written[-1]["Size"]) == ("allocate failure", "0")
    assert all(__file__ in row["Site"] for row in written[:-1])
    assert (recorder.events, recorder.capacity) == (3, 2)
    for block, size in zip(blocks, (100, 200, 300), strict=True):
        recorder.deallocate(block, size)
    with pytest.raises(OSError, match="missing"):
        recorder.save(tmp_path / "missing" / "kept.csv")


PROGRAM = """
import sys, rmm_rs
from rmm_rs import mr
def ask(resource):
    try:
        resource.allocate(1 << 50)
    except MemoryError as error:
        print(error)
def initialized(**options):
    rmm_rs.reinitialize(**options)
    return mr.get_current_device_resource()
pool = {
    "text": lambda: mr.SpecMemoryResource("pool(cuda)"),
    "default": rmm_rs.default_pool,
    "first": initialized,
    "first pool": lambda: initialized(pool_allocator=True, initial_pool_size=1 << 20),
    "option": lambda: mr.RecorderResourceAdaptor(mr.CudaMemoryResource(), oom_report=sys.argv[2]),
    "pool": lambda: mr.PoolMemoryResource(mr.CudaMemoryResource(), 0, oom_report=sys.argv[2]),
}[sys.argv[1]]()
assert not (sys.argv[1] in ("default", "first pool")) or isinstance(pool, mr.PoolMemoryResource)
for _ in range(4):
    ask(pool)
"""


@pytest.mark.parametrize("how", ["text", "default", "first", "first pool", "option", "pool"])
def test_a_failure_writes_a_report_and_names_it(how: str, tmp_path: Path) -> None:
    environment = dict(os.environ)
    if how not in ("option", "pool"):
        environment["RMM_OOM_REPORT"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, str(tmp_path)],
        env=environment, capture_output=True, text=True, check=True,
    )
    errors = done.stdout.splitlines()
    logs = sorted(tmp_path.glob("rmm-oom-*.csv"))
    assert len(logs) == 3
    assert all(str(log) in error for log, error in zip(logs, errors, strict=False))
    assert "no report" in errors[3]
    page = logs[0].with_suffix(".html")
    assert str(page) in errors[0] and "1,048,576.00 GiB" in page.read_text()
    failed, lines = rows(logs[0])[-2], PROGRAM.count("\n")
    assert (failed["Action"], failed["Size"]) == ("allocate failure", str(1 << 50))
    assert failed["Site"].startswith(f"<string>:6 ask < <string>:{lines} <module>")


FORKED = """
import os, signal, sys, threading
import rmm_rs
from rmm_rs import mr

folder = sys.argv[1]
recorder = mr.RecorderResourceAdaptor(mr.CudaMemoryResource(), oom_report=folder)
held = [recorder.allocate(1000) for _ in range(10)]
stop = threading.Event()


def churn():
    while not stop.is_set():
        recorder.deallocate(recorder.allocate(300), 300)


threads = [threading.Thread(target=churn) for _ in range(2)]
for thread in threads:
    thread.start()


def in_child(act):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            act()
            os._exit(0)
        except (RuntimeError, OSError, MemoryError):
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


for number in range(20):
    # It allocates nothing, so it has no failure to write of; frees do nothing.
    assert in_child(lambda: recorder.allocate(1 << 50)) == 1
    assert in_child(lambda: recorder.deallocate(held[0], 1000)) == 0
    assert in_child(lambda: (recorder.events, recorder.capacity, repr(recorder))) == 0
    # Either it writes, or it says that it cannot.
    assert in_child(lambda: recorder.save(f"{folder}/child-{number}.csv")) in (0, 1)
reports = [name for name in os.listdir(folder) if name.startswith("rmm-oom")]
assert reports == [], reports
stop.set()
for thread in threads:
    thread.join()
# The parent's recorder is as before.
recorder.save(f"{folder}/parent.csv")
try:
    recorder.allocate(1 << 50)
except MemoryError as error:
    assert f"rmm-oom-{os.getpid()}-0.csv" in str(error), error
for block in held:
    recorder.deallocate(block, 1000)
"""


def test_a_recorder_in_the_child_of_a_fork_neither_waits_nor_writes_reports(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    # Python warns of forks with threads, from 3.12 on.
    wrong = [text for text in done.stderr.splitlines() if "Error" in text]
    assert (done.returncode, wrong) == (0, []), done.stderr
    live = [row["Size"] for row in rows(tmp_path / "parent.csv")]
    assert live.count("1000") == 10
    assert len(list(tmp_path.glob("rmm-oom-*.csv"))) == 1
