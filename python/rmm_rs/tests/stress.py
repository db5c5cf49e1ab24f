"""Threads that allocate, copy, resize, fail, collect garbage and fork, for some minutes.

``python stress.py --minutes 10 --threads 8`` on the software driver; ``RMM_DRIVER=cuda`` before it
for a GPU. It ends with 1 if contents are wrong, memory is left, or an unexpected error is raised,
and prints where every thread is if none gets on for a minute.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import resource as system
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import software_driver

IS_SOFTWARE = software_driver.use()

from rmm_rs import DeviceBuffer, mr  # noqa: E402
from rmm_rs.pylibrmm.stream import (  # noqa: E402
    DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Stream,
)

# Seconds after which a thread that does not get on, or a child, is taken for stuck.
STUCK = 60


class Injected(Exception):
    """What callbacks raise now and then."""


class Derived(DeviceBuffer):
    """A buffer that may be part of a cycle."""

    other: object


class Upstream:
    """A resource of Python functions over the device's, some of whose calls fail."""

    def __init__(self, seed: int) -> None:
        self.base = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
        self.chance, self.calls = random.Random(seed), 0
        self.resource = mr.CallbackMemoryResource(self.allocate, self.deallocate)

    def allocate(self, size: int, stream: Stream) -> int:
        draw = self.chance.random()
        self.calls += 1
        if draw < 0.05:
            raise MemoryError("injected")
        if draw < 0.4:
            raise Injected("injected")
        if draw < 0.6:
            gc.collect(0)
        return self.base.allocate(size, stream)

    def deallocate(self, address: int, size: int, stream: Stream) -> None:
        self.base.deallocate(address, size, stream)


class Stack:
    """Resources that the threads of a round share."""

    def __init__(self, seed: int) -> None:
        self.upstream = Upstream(seed)
        self.pool = mr.PoolMemoryResource(
            self.upstream.resource, 0, "96MiB", preset=["throughput", "compact"][seed % 2]
        )
        limiting = mr.LimitingResourceAdaptor(self.pool, 80 << 20)
        self.top = mr.StatisticsResourceAdaptor(limiting)

    def check(self) -> None:
        """No memory is left once all threads have ended."""
        gc.collect()
        live = (self.top.allocation_counts.current_bytes, self.pool.statistics()["live_bytes"])
        assert live == (0, 0), live
        tracked = self.upstream.base
        del self.pool, self.top
        gc.collect()
        assert tracked.get_allocated_bytes() == 0, tracked.get_outstanding_allocations_str()


class Worker:
    """One thread: random actions on buffers of its own, and on some that all share."""

    def __init__(self, stack: Stack, shared: list[DeviceBuffer], seed: int) -> None:
        self.stack, self.shared, self.chance = stack, shared, random.Random(seed)
        self.streams = [Stream(), DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM]
        self.own: list[tuple[DeviceBuffer, Stream, bytes]] = []
        self.done: Counter[str] = Counter()
        self.last = time.monotonic()
        self.failure: BaseException | None = None

    def run(self, end: float) -> None:
        try:
            while time.monotonic() < end:
                self.step()
                self.last = time.monotonic()
        except BaseException as error:
            self.failure = error
        self.own.clear()

    def step(self) -> None:
        actions = [self.allocate] * 8 + [self.free] * 7 + [self.resize, self.share]
        actions += [self.cycle, self.trim]
        action = self.chance.choice(actions)
        try:
            action()
            self.done[action.__name__] += 1
        except MemoryError:
            self.done["out of memory"] += 1
            del self.own[::2]
        except RuntimeError as error:
            if not isinstance(error.__cause__, Injected):
                raise
            self.done["raised by a callback"] += 1

    def allocate(self) -> None:
        stream = self.chance.choice(self.streams)
        size = int(2 ** self.chance.uniform(0, 22))
        buffer = DeviceBuffer(size=size, stream=stream, mr=self.stack.top)
        contents = self.chance.randbytes(min(size, 64))
        buffer.copy_from_host(contents, stream)
        # The copy may read the host's memory until then.
        stream.synchronize()
        self.own.append((buffer, stream, contents))

    def free(self) -> None:
        if self.own:
            buffer, stream, contents = self.own.pop(self.chance.randrange(len(self.own)))
            assert buffer.tobytes(stream)[: len(contents)] == contents

    def resize(self) -> None:
        if self.own:
            buffer, stream, contents = self.own[-1]
            buffer.resize(len(contents) + self.chance.randrange(1 << 20), stream)

    def share(self) -> None:
        """Another thread may free it, on the stream that it was allocated on."""
        buffer = DeviceBuffer(size=1 << 16, stream=self.streams[0], mr=self.stack.top)
        self.shared.append(buffer)
        if len(self.shared) > 20:
            try:
                self.shared.pop(0)
            except IndexError:
                pass

    def trim(self) -> None:
        """The pool has to grow again, and calls Python."""
        if self.chance.random() < 0.3:
            self.own.clear()
            for stream in self.streams:
                stream.synchronize()
        self.stack.pool.trim()

    def cycle(self) -> None:
        buffer = Derived(size=1 << 14, stream=self.streams[0], mr=self.stack.top)
        buffer.other = [buffer]
        del buffer
        if self.chance.random() < 0.2:
            gc.collect()


def fork(buffer: DeviceBuffer) -> None:
    """In a child everything that needs the driver raises, and garbage is collected in peace."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                DeviceBuffer(size=10)
            except RuntimeError as error:
                status = 0 if "spawn" in str(error) else 2
            del buffer
            gc.collect()
        finally:
            os._exit(status)
    deadline = time.monotonic() + STUCK
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGABRT)
            os.waitpid(child, 0)
            raise AssertionError("the child of a fork is stuck")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status) == 0, status


def round_of(seed: int, threads: int, seconds: float) -> Counter[str]:
    """Some seconds of work on one stack. Returns what was done."""
    stack, shared = Stack(seed), list[DeviceBuffer]()
    workers = [Worker(stack, shared, seed * 1000 + number) for number in range(threads)]
    end = time.monotonic() + seconds
    running = [threading.Thread(target=worker.run, args=(end,)) for worker in workers]
    for thread in running:
        thread.start()
    held, forks = DeviceBuffer(size=1000), 0
    while any(thread.is_alive() for thread in running):
        # This thread may be the one that is stuck.
        faulthandler.dump_traceback_later(2 * STUCK, exit=True)
        fork(held)
        forks += 1
        stack.pool.trim()
        for thread in running:
            thread.join(timeout=0.05)
        alive = [worker for worker, thread in zip(workers, running) if thread.is_alive()]
        last = min((worker.last for worker in alive), default=time.monotonic())
        if time.monotonic() - last > STUCK:
            faulthandler.dump_traceback(all_threads=True)
            os._exit(1)
    for worker in workers:
        if worker.failure is not None:
            raise worker.failure
    done = sum((worker.done for worker in workers), Counter({"fork": forks, "call of the upstream": stack.upstream.calls}))
    # Frames and exceptions of the threads hold buffers.
    del shared[:], workers, running
    stack.check()
    return done


def violations(folder: str) -> list[str]:
    """What the software driver found."""
    reports = [path.read_text().splitlines() for path in Path(folder).iterdir()]
    assert reports and all(report[-1] == "end" for report in reports), "a report is missing"
    return [line for report in reports for line in report if line.startswith("violation")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments: Any = parser.parse_args()
    if IS_SOFTWARE and "RMM_SIM_REPORT" not in os.environ:
        # The report is written as a process ends: this one reads it.
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "RMM_SIM_REPORT": folder}
            program = subprocess.run([sys.executable, *sys.argv], env=environment, check=False)
            found = violations(folder) if program.returncode == 0 else []
            if program.returncode == 0 and not found:
                print("the software driver reports no violation")
        print(*found, sep="\n", end="")
        sys.exit(program.returncode or bool(found))
    # A driver has threads, of which Python warns at a fork.
    warnings.simplefilter("ignore", DeprecationWarning)
    sys.setswitchinterval(1e-4)
    done: Counter[str] = Counter()
    end, seed, memory = time.monotonic() + 60 * arguments.minutes, arguments.seed, 0
    while (left := end - time.monotonic()) > 0:
        print(f"round {seed}, {left:.0f} s left", flush=True)
        done += round_of(seed, arguments.threads, min(10, left))
        seed += 1
        memory = memory or system.getrusage(system.RUSAGE_SELF).ru_maxrss
    grown = system.getrusage(system.RUSAGE_SELF).ru_maxrss - memory
    faulthandler.cancel_dump_traceback_later()
    print(f"{dict(done)}; {grown} KiB more than after the first round")


if __name__ == "__main__":
    main()
