"""One process on two devices: copies, streams, frees and shortages.

    devices.py [CHECK ...]

After a failed check the process ends, since the device may be in a bad state; the runner starts
another one with the checks that are left.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import report
import torch

MIB = report.MIB
FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")
Figures = dict[str, Any] | None


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.cpu(), b.cpu())


def copies() -> Figures:
    """Contiguous copies: of the driver."""
    for count in (256, MIB, 16 * MIB):
        host = torch.arange(count, dtype=torch.float32)
        for source, target in ((FIRST, SECOND), (SECOND, FIRST)):
            x = host.to(source)
            assert equal(x.to(target), host), (count, source)
            assert equal(x.to(target, non_blocking=True), host), (count, source)
            y = torch.empty_like(host, device=target)
            y.copy_(x)
            assert equal(y, host), (count, source)
    return None


def copies_by_kernels() -> Figures:
    """Copies of strided tensors and between types: of kernels that access the other device."""
    host = torch.arange(MIB, dtype=torch.float32)
    for source, target in ((FIRST, SECOND), (SECOND, FIRST)):
        x = host.to(source)
        assert equal(x.to(target, torch.float64), host.double()), source
        assert equal(x[::2].to(target), host[::2]), source
        y = torch.zeros(2 * MIB, device=target)
        y[::2].copy_(x)
        assert equal(y[::2], host), source
        z = torch.zeros(1024, 1024, device=target)
        z.copy_(x.view(1024, 1024).t())
        assert equal(z, host.view(1024, 1024).t()), source
    return None


def counts_of_each() -> Figures:
    before = [torch.cuda.memory_allocated(device) for device in (FIRST, SECOND)]
    x = torch.ones(MIB, device=FIRST)
    y = torch.ones(3 * MIB, device=SECOND)
    now = [torch.cuda.memory_allocated(device) for device in (FIRST, SECOND)]
    assert [b - a for a, b in zip(before, now)] == [4 * MIB, 12 * MIB], (before, now)
    del x, y
    assert [torch.cuda.memory_allocated(device) for device in (FIRST, SECOND)] == before
    traces = len(torch.cuda.memory._snapshot()["device_traces"])
    return {"lists of traces": traces}


def frees_on_another_device() -> Figures:
    """Blocks are freed with the other device current, also by other threads."""
    before = torch.cuda.memory_allocated(FIRST)
    for i in range(200):
        with torch.cuda.device(FIRST):
            x = torch.full((1000 + i * 100,), float(i), device=FIRST)
        with torch.cuda.device(SECOND):
            total = x.sum()
            freer = threading.Thread(target=x.zero_)
            freer.start()
            freer.join()
            del x, freer
            y = torch.full((1000 + i * 100,), -1.0, device=FIRST)
            assert total.item() == i * (1000.0 + i * 100), i
            del y, total
    assert torch.cuda.memory_allocated(FIRST) == before
    return None


def streams_of_another_device() -> Figures:
    """Threads whose current device is one use streams and memory of the other."""
    failures: list[object] = []

    def work(own: torch.device, other: torch.device, seed: int) -> None:
        torch.cuda.set_device(own)
        stream = torch.cuda.Stream(other)
        try:
            for i in range(200):
                with torch.cuda.stream(stream):
                    count = 1000 * (1 + (7 * seed + i) % 50)
                    x = torch.full((count,), float(i), device=other)
                    if (x + 1).sum().item() != (i + 1) * count:
                        failures.append((own, seed, i))
                y = torch.full((count,), 1.0, device=own)
                if y.sum().item() != count:
                    failures.append((own, seed, i))
        except Exception as error:
            failures.append(error)

    pairs = [(FIRST, SECOND), (SECOND, FIRST)]
    threads = [threading.Thread(target=work, args=(*pairs[seed % 2], seed)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
    return None


def recorded_streams_across() -> Figures:
    """A stream of each device is recorded for a block, which another request must not get before
    the copy has read it."""
    near, far = torch.cuda.Stream(FIRST), torch.cuda.Stream(SECOND)
    wrong = 0
    for i in range(40):
        x = torch.full((MIB,), float(i), device=FIRST)
        near.wait_stream(torch.cuda.current_stream(FIRST))
        with torch.cuda.stream(near), torch.cuda.stream(far):
            # On `far`, for which the copy waits: it is on `near`, the source's stream.
            torch.cuda._sleep(5_000_000)
            y = x.to(SECOND, non_blocking=True)
        x.record_stream(near)
        x.record_stream(far)
        del x
        z = torch.full((MIB,), -1.0, device=FIRST)
        torch.cuda.synchronize(SECOND)
        wrong += int((y != i).any().item())
        del y, z
    assert wrong == 0, f"{wrong} of 40 copies read memory of another tensor"
    return None


def out_of_memory_of_one() -> Figures:
    """One device is filled: the other one keeps what it has."""
    kept = torch.arange(MIB, device=SECOND)
    torch.cuda.empty_cache()
    reserved = torch.cuda.memory_reserved(SECOND)
    held: list[torch.Tensor] = []
    try:
        for _ in range(1000):
            held.append(torch.empty(2 << 30, dtype=torch.uint8, device=FIRST))
    except torch.OutOfMemoryError as error:
        assert "GPU 0" in str(error), error
    else:
        raise AssertionError("2,000 GiB were allocated")
    assert torch.cuda.memory_reserved(SECOND) == reserved
    assert equal(kept, torch.arange(MIB))
    more = torch.ones(64 * MIB, device=SECOND)
    assert more.sum().item() == 64 * MIB
    count = len(held)
    held.clear()
    torch.cuda.empty_cache()
    rest = torch.cuda.memory_reserved(FIRST)
    assert rest < 256 * MIB, rest
    x = torch.ones(MIB, device=FIRST)
    assert x.sum().item() == MIB
    return {"GiB": 2 * count, "reserved after, MiB": rest / MIB}


def graphs_on_the_second() -> Figures:
    with torch.cuda.device(SECOND):
        static = torch.zeros(MIB, device=SECOND)
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            temporary = static * 2
            result = temporary + 1
            del temporary
    for i in range(50):
        noise = [torch.full((MIB,), 7.0, device=device) for device in (FIRST, SECOND)]
        with torch.cuda.device(SECOND):
            static.fill_(i)
            graph.replay()
        assert (result == 2 * i + 1).all().item(), i
        del noise
    reserved = torch.cuda.memory_reserved(SECOND)
    del graph, result
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved(SECOND) < reserved
    return None


def reduce_overhead_on_the_second() -> Figures:
    """Graph trees, with their checkpoints, on each device."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)]
    model = torch.nn.Sequential(*layers).to(SECOND)
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=False)
    with torch.cuda.device(SECOND), torch.no_grad():
        for size in (8, 16, 8, 24, 16, 8, 24) * 3:
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(size, 64, device=SECOND)
            once = compiled(x)
            twice = compiled(once)
            assert torch.allclose(twice, model(model(x)), atol=1e-4), size
            del once, twice
    return None


CHECKS = {
    check.__name__: check
    for check in (
        copies,
        copies_by_kernels,
        counts_of_each,
        frees_on_another_device,
        streams_of_another_device,
        recorded_streams_across,
        graphs_on_the_second,
        out_of_memory_of_one,
        reduce_overhead_on_the_second,
    )
}

if __name__ == "__main__":
    report.allocator()
    for name in sys.argv[1:] or CHECKS:
        if not report.attempt(name, CHECKS[name]):
            sys.exit(1)
    torch.cuda.synchronize(FIRST)
    torch.cuda.synchronize(SECOND)
