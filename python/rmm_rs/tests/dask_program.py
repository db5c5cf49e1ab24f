"""A program of Dask-CUDA on this package:

`dask_program.py [cupy] [ucx]`: with arrays of CuPy, and over UCX in place of TCP. Prints `done` if
all of it held.

Two workers, each with a pool whose bytes are tracked: one for each GPU by `LocalCUDACluster`, or on
the same GPU, where there is but one, by the command line.
"""

from __future__ import annotations

import rmm_rs.integrations.dask  # isort: skip

import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

POOL, MAXIMUM = 64 << 20, 1 << 30
PROTOCOL = "ucx" if "ucx" in sys.argv else "tcp"


def what_a_worker_has() -> dict[str, Any]:
    """The alias, the stack that Dask-CUDA made, and what it says of it."""
    from dask_cuda.utils import get_rmm_device_memory_usage

    import rmm

    diagnostics: Any = importlib.import_module("distributed.diagnostics.rmm")
    protocol: Any = importlib.import_module("distributed.protocol")
    tracking = rmm.mr.get_current_device_resource()
    pool = tracking.upstream_mr
    header, _ = protocol.serialize(rmm.DeviceBuffer.to_device(b"abc"))
    return {
        "package": rmm.__name__,
        "version": rmm.__version__,
        "stack": [type(mr).__name__ for mr in (tracking, pool, pool.upstream_mr)],
        "pool": pool.pool_size(),
        "used": get_rmm_device_memory_usage(),
        "metrics": diagnostics.real_time(),
        "serializer": header["serializer"],
        "process": os.getpid(),
    }


def make(number: int) -> Any:
    import rmm

    return rmm.DeviceBuffer.to_device(bytes([number]) * 100_000)


def read(buffer: Any) -> tuple[int, int, int]:
    return os.getpid(), buffer.size, sum(buffer.tobytes())


def used() -> int:
    import gc

    import rmm

    gc.collect()
    bytes_used: int = rmm.mr.get_current_device_resource().get_allocated_bytes()
    return bytes_used


def waiting_for(condition: Any, what: str) -> None:
    """Workers forget their results some time after the client does."""
    import time

    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@contextlib.contextmanager
def two_workers() -> Iterator[Any]:
    """A client of two workers, each with a pool."""
    from dask_cuda import LocalCUDACluster
    from dask_cuda.utils import get_gpu_count

    distributed: Any = importlib.import_module("distributed")
    devices = min(get_gpu_count(), 2)
    cluster = LocalCUDACluster(
        CUDA_VISIBLE_DEVICES=list(range(devices)),
        n_workers=devices,
        threads_per_worker=1,
        protocol=PROTOCOL,
        dashboard_address=":0",
        rmm_pool_size=POOL,
        rmm_maximum_pool_size=MAXIMUM,
        rmm_track_allocations=True,
        # All of it may be on the device, and it is the same for both kinds of worker.
        device_memory_limit=MAXIMUM,
        memory_limit=0,
    )
    others = []
    with cluster, distributed.Client(cluster) as client:
        if devices == 1:
            command = [sys.executable, "-m", "dask_cuda.cli", cluster.scheduler_address]
            command += ["--rmm-pool-size", str(POOL), "--rmm-maximum-pool-size", str(MAXIMUM)]
            command += ["--rmm-track-allocations", "--nthreads", "1", "--no-dashboard"]
            command += ["--device-memory-limit", str(MAXIMUM), "--memory-limit", "0"]
            environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
            others.append(subprocess.Popen(command, env=environment))
        try:
            client.wait_for_workers(2, timeout=60)
            yield client
        finally:
            for other in others:
                other.terminate()
                other.wait(30)


def check_workers(client: Any) -> None:
    found = client.run(what_a_worker_has)
    assert len({worker["process"] for worker in found.values()}) == 2, found
    for worker in found.values():
        assert worker["package"] == "rmm_rs" and "+rmm.rs." in worker["version"], worker
        expected = ["TrackingResourceAdaptor", "PoolMemoryResource", "CudaMemoryResource"]
        assert worker["stack"] == expected, worker
        assert worker["pool"] >= POOL, worker
        assert worker["used"] == worker["metrics"]["rmm-used"] == 0, worker
        assert worker["metrics"]["rmm-total"] == worker["pool"], worker

    def have_metrics() -> bool:
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        return all(
            worker["metrics"].get("rmm", {}).get("rmm-total", 0) >= POOL for worker in workers
        )

    waiting_for(have_metrics, "no worker reports its pool")
    print("serialised by", {worker["serializer"] for worker in found.values()})


def check_buffers(client: Any) -> None:
    """Buffers that are made on one worker and read on the other, and by the client."""
    first, second = client.scheduler_info(n_workers=-1)["workers"]
    made = [client.submit(make, number, workers=first, pure=False) for number in range(8)]
    seen = client.gather([client.submit(read, buffer, workers=second) for buffer in made])
    assert [(size, total) for _, size, total in seen] == [(100_000, n * 100_000) for n in range(8)]
    brought = client.gather(made[3])
    assert type(brought) is rmm_rs.DeviceBuffer and brought.tobytes() == b"\3" * 100_000
    (sent,) = client.scatter([rmm_rs.DeviceBuffer.to_device(b"abc")], workers=[second])
    assert client.submit(read, sent).result()[1:] == (3, sum(b"abc"))
    del made, sent
    waiting_for(lambda: set(client.run(used).values()) == {0}, "memory is left on a worker")


def use_cupy() -> None:
    import cupy

    from rmm.allocators.cupy import rmm_cupy_allocator

    cupy.cuda.set_allocator(rmm_cupy_allocator)


def check_arrays(client: Any, library: Any) -> None:
    """Arrays of CuPy on both workers: what NumPy makes of them, and all in our pools."""
    import dask.array as da
    import numpy as np

    side = 2000
    numbers = da.arange(side * side, chunks=side * side // 16, dtype=np.float64)
    x = da.sin(numbers.map_blocks(library.asarray, dtype=np.float64)).reshape(side, side)
    x = x.rechunk((side // 4, side // 4)).persist()
    y = (x @ x.T + da.exp(x)).sum(axis=0)
    on_device = client.compute(y, sync=True)
    assert isinstance(on_device, library.ndarray), type(on_device)
    host = np.sin(np.arange(side * side, dtype=np.float64)).reshape(side, side)
    found = on_device if library is np else library.asnumpy(on_device)
    np.testing.assert_allclose(found, (host @ host.T + np.exp(host)).sum(axis=0), atol=1e-6)
    if library is not np:
        tracked = client.run(used)
        assert sum(tracked.values()) >= host.nbytes and min(tracked.values()) > 0, tracked
        print("bytes on the workers:", sorted(tracked.values()))


def main() -> None:
    with two_workers() as client:
        check_workers(client)
        check_buffers(client)
        if "cupy" in sys.argv:
            client.run(use_cupy)
            check_arrays(client, importlib.import_module("cupy"))
        else:
            check_arrays(client, importlib.import_module("numpy"))
    print("done")


if __name__ == "__main__":
    main()
