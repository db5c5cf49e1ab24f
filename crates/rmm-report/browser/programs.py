"""Logs of planted programs, with counters kept beside them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
BASE = 0x7F0000000000


def aligned(size: int) -> int:
    return -(-size // 256) * 256


@dataclass
class Block:
    size: int
    address: int
    tag: str
    site: str
    stream: int
    start: int
    end: int | None = None


@dataclass
class Program:
    """Writes a log, and counts for itself."""

    path: Path
    rows: list[str] = field(default_factory=lambda: ["Thread,Time,Action,Pointer,Size,Stream,Tag,Site"])
    blocks: list[Block] = field(default_factory=list)
    live: int = 0
    peak: int = 0
    peak_event: int = 0
    events: int = 0
    failures: list[tuple[int, int]] = field(default_factory=list)
    top: int = BASE

    def row(self, action: str, block: Block) -> None:
        self.events += 1
        microseconds = self.events * 1000
        time = f"{microseconds // 3_600_000_000:02}:{microseconds // 60_000_000 % 60:02}:{microseconds / 1e6 % 60:09.6f}"
        names = ",".join('"' + name.replace('"', '""') + '"' for name in (block.tag, block.site))
        self.rows.append(f"1,{time},{action},{block.address:#x},{block.size},{block.stream:#x},{names}")

    def allocate(self, size: int, tag: str = "", site: str = "", address: int | None = None, stream: int = 7) -> Block:
        if address is None:
            address, self.top = self.top, self.top + aligned(size)
        block = Block(size, address, tag, site, stream, self.events + 1)
        self.row("allocate", block)
        self.blocks.append(block)
        self.live += aligned(size)
        if self.live > self.peak:
            self.peak, self.peak_event = self.live, self.events
        return block

    def free(self, block: Block) -> None:
        self.row("free", block)
        block.end = self.events
        self.live -= aligned(block.size)

    def fail(self, size: int, tag: str = "", site: str = "") -> None:
        self.row("allocate failure", Block(size, 0, tag, site, 7, 0))
        self.failures.append((self.events, size))

    def steps(self, count: int, tag: str = "steps") -> None:
        for _ in range(count):
            blocks = [self.allocate(i * MIB, tag, "a.py:2 step < main.py:9 run", BASE + (i + 40) * 8 * MIB) for i in range(1, 5)]
            for block in blocks:
                self.free(block)

    def written(self) -> Path:
        self.path.write_text("\n".join(self.rows) + "\n")
        return self.path


def leak_freed_at_exit(path: Path, steps: int = 200, kept: int = 100_000) -> Program:
    program = Program(path)
    weights = program.allocate(64 * MIB, "weights")
    leaked = []
    for _ in range(steps):
        program.steps(1)
        leaked.append(program.allocate(kept, "cache", "a.py:1 load < main.py:9 run"))
    for block in leaked:
        program.free(block)
    program.free(weights)
    program.written()
    return program


def fragmented(path: Path) -> Program:
    program = Program(path)
    blocks = [program.allocate(MIB, "pieces") for _ in range(128)]
    for block in blocks[::2]:
        program.free(block)
    large = program.allocate(300 * MIB, "large")
    program.free(large)
    for block in blocks[1::2]:
        program.free(block)
    program.written()
    return program


def spike(path: Path) -> Program:
    program = Program(path)
    program.steps(150)
    program.free(program.allocate(1024 * MIB, "spike", "b.py:7 once"))
    program.steps(150)
    program.written()
    return program


def failure(path: Path) -> Program:
    program = Program(path)
    kept = [program.allocate(8 * MIB, "weights") for _ in range(10)]
    program.steps(20)
    program.fail(512 * MIB, "batch", "c.py:3 more")
    program.fail(256 * MIB, "batch", "c.py:4 less")
    program.steps(5)
    for block in kept:
        program.free(block)
    program.written()
    return program


HOSTILE = "</script><script>document.title='owned'</script><!-- <img src=x onerror=alert(1)> & \"'"


def hostile(path: Path) -> Program:
    program = Program(path)
    for _ in range(10):
        program.steps(5, HOSTILE)
        program.allocate(MIB, HOSTILE, HOSTILE + " < " + HOSTILE)
    program.written()
    return program


def at_random(path: Path, events: int, live: int = 3000, seed: int = 1) -> Path:
    """A log of many events: steps of many sizes over a few streams, in addresses that are reused."""
    chance = random.Random(seed)
    sizes = [int(2 ** chance.uniform(8, 24)) for _ in range(400)]
    free: dict[int, list[int]] = {}
    held: list[tuple[int, int, int]] = []
    top = BASE
    lines = ["Thread,Time,Action,Pointer,Size,Stream\n"]
    with path.open("w") as file:
        for event in range(events):
            micros = event * 7
            time = f"{micros // 3_600_000_000:02}:{micros // 60_000_000 % 60:02}:{micros // 1_000_000 % 60:02}.{micros % 1_000_000:06}"
            wave = live * (0.6 + 0.4 * abs((event * 40 // events) % 2 - (event * 40 / events) % 1))
            if len(held) < wave and (not held or chance.random() < 0.9) or len(held) < 2:
                size = sizes[int(chance.random() ** 2 * 400)]
                places = free.setdefault(size, [])
                if places:
                    address = places.pop()
                else:
                    address, top = top, top + aligned(size)
                stream = 16 + int(chance.random() * 4)
                held.append((address, size, stream))
                lines.append(f"1,{time},allocate,{address:#x},{size},{stream:#x}\n")
            else:
                # Mostly what is young.
                index = len(held) - 1 - int(chance.random() ** 4 * len(held))
                held[index], held[-1] = held[-1], held[index]
                address, size, stream = held.pop()
                free[size].append(address)
                lines.append(f"1,{time},free,{address:#x},{size},{stream:#x}\n")
            if len(lines) > 50_000:
                file.writelines(lines)
                lines.clear()
        file.writelines(lines)
    return path
