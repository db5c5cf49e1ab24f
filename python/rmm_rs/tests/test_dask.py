"""Dask-CUDA and Distributed under the alias.

Their calls are made by themselves, and where they are installed, by them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmm_rs import DeviceBuffer

HERE = Path(__file__).resolve().parent

Run = Callable[..., Any]
Env = dict[str, str]
Needs = Callable[..., None]


def succeeds(result: Any) -> None:
    assert result.returncode == 0, result.stderr[-6000:]


# What Dask-CUDA's worker plug-in `RMMSetup` does for the arguments of a cluster.
SETUP = """
import rmm_rs.as_rmm
import rmm

def setup(
    pool=None, maximum=None, managed=False, is_async=False, threshold=None, log=None, track=False
):
    if is_async:
        mr = rmm.mr.CudaAsyncMemoryResource(initial_pool_size=pool, release_threshold=threshold)
        if maximum is not None:
            mr = rmm.mr.LimitingResourceAdaptor(mr, allocation_limit=maximum)
        rmm.mr.set_current_device_resource(mr)
        if log:
            rmm.enable_logging(log_file_name=log)
    elif pool is not None or managed:
        rmm.reinitialize(
            pool_allocator=pool is not None, managed_memory=managed, initial_pool_size=pool,
            maximum_pool_size=maximum, logging=bool(log), log_file_name=log,
        )
    if track:
        mr = rmm.mr.get_current_device_resource()
        rmm.mr.set_current_device_resource(rmm.mr.TrackingResourceAdaptor(mr))

def stack():
    def names(mr):
        return [type(mr).__name__] + (names(mr.upstream_mr) if hasattr(mr, "upstream_mr") else [])
    return names(rmm.mr.get_current_device_resource())

def device_memory_usage():
    mr = rmm.mr.get_current_device_resource()
    while True:
        if isinstance(mr, rmm.mr.TrackingResourceAdaptor):
            return mr.get_allocated_bytes()
        if isinstance(mr, rmm.mr.StatisticsResourceAdaptor):
            return mr.allocation_counts["current_bytes"]
        if not hasattr(mr, "upstream_mr"):
            return None
        mr = mr.upstream_mr

buffer = lambda: rmm.DeviceBuffer(size=1000)
"""


@pytest.mark.parametrize(
    ("arguments", "stack"),
    [
        ("pool=1 << 20", "PoolMemoryResource CudaMemoryResource"),
        (
            "pool=1 << 20, maximum=4 << 20, track=True",
            "TrackingResourceAdaptor PoolMemoryResource CudaMemoryResource",
        ),
        ("managed=True", "ManagedMemoryResource"),
        ("pool=1 << 20, managed=True", "PoolMemoryResource ManagedMemoryResource"),
        ("is_async=True", "CudaAsyncMemoryResource"),
        (
            "is_async=True, pool=1 << 20, maximum=8 << 20, threshold=1 << 20, track=True",
            "TrackingResourceAdaptor LimitingResourceAdaptor CudaAsyncMemoryResource",
        ),
        (
            "pool=1 << 20, log='rmm_log.txt'",
            "LoggingResourceAdaptor PoolMemoryResource CudaMemoryResource",
        ),
        ("is_async=True, log='rmm_log.txt'", "LoggingResourceAdaptor CudaAsyncMemoryResource"),
    ],
)
def test_a_workers_options_make_the_stack(
    run: Run, tmp_path: Path, arguments: str, stack: str
) -> None:
    usage = 1000 if "track" in arguments else None
    result = run(f"""{SETUP}
import os
os.chdir({str(tmp_path)!r})
setup({arguments})
assert " ".join(stack()) == {stack!r}, stack()
live = buffer()
assert device_memory_usage() in ({usage}, 1024 if {usage} else None), device_memory_usage()
""")
    succeeds(result)
    assert bool(list(tmp_path.glob("rmm_log.dev0.txt"))) == ("log" in arguments)


def test_usage_is_read_from_statistics_by_index(run: Run) -> None:
    succeeds(
        run(f"""{SETUP}
mr = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
rmm.mr.set_current_device_resource(mr)
live = buffer()
assert device_memory_usage() == 1000
""")
    )


def test_a_buffer_is_made_of_what_distributed_sends() -> None:
    import numpy as np

    buffer = DeviceBuffer.to_device(b"abc")
    header = buffer.__cuda_array_interface__.copy()
    header["strides"] = (1,)
    frame = np.asarray(memoryview(buffer.copy_to_host()))
    received = DeviceBuffer(ptr=frame.__array_interface__["data"][0], size=frame.nbytes)
    assert received.tobytes() == b"abc" and header["shape"] == (3,)


DISPATCHES = """
import sys
class Dispatch(dict):
    def register_lazy(self, name, call):
        self[name] = call
    def register(self, kind, call):
        self[kind] = call
"""


@pytest.mark.parametrize("is_first", [False, True])
def test_distributed_learns_of_our_buffers(run: Run, tmp_path: Path, is_first: bool) -> None:
    """Whether it is imported before the alias or after."""
    for package in ("distributed", "dask"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "dask" / "sizeof.py").write_text(f"{DISPATCHES}\nsizeof = Dispatch()\n")
    protocol = tmp_path / "distributed" / "protocol"
    protocol.mkdir()
    names = "cuda_serialize, cuda_deserialize, dask_serialize, dask_deserialize"
    (protocol / "__init__.py").write_text(
        f"{DISPATCHES}\n{names} = (Dispatch() for _ in range(4))\n"
    )
    (protocol / "rmm.py").write_text(
        "import rmm\nfrom distributed import protocol\n"
        "protocol.dask_serialize.register(rmm.DeviceBuffer, 'sent')\n"
    )
    imports = ["import distributed.protocol as protocol", "import rmm_rs.as_rmm"]
    lines = "\n".join(imports if is_first else imports[::-1])
    succeeds(
        run(
            f"""
import sys
finders = len(sys.meta_path)
{lines}
assert len(sys.meta_path) == finders + 1, "only the alias is left"
assert type(protocol.__spec__.loader).__name__ != "_RegisterAfter"
import rmm_rs, dask.sizeof
for dispatch in (protocol.{names.replace(", ", ", protocol.")}):
    assert list(dispatch) == ["rmm_rs"], dispatch
assert "distributed.protocol.rmm" not in sys.modules
protocol.dask_serialize["rmm_rs"]()
assert protocol.dask_serialize[rmm_rs.DeviceBuffer] == "sent"
dask.sizeof.sizeof["rmm_rs"]()
assert dask.sizeof.sizeof[rmm_rs.DeviceBuffer](rmm_rs.DeviceBuffer(size=12)) == 12
""",
            env={"PYTHONPATH": str(tmp_path)},
        )
    )


def test_processes_of_a_program_have_the_alias(run: Run, tmp_path: Path) -> None:
    """Also where the real RMM is installed."""
    real = tmp_path / "real"
    real.mkdir()
    (real / "rmm.py").write_text("raise SystemExit('the real one')\n")
    child = "import rmm, rmm_rs, sys; assert rmm is rmm_rs is sys.modules['rmm']; import rmm.mr"
    code = f"""
import subprocess, sys
import rmm_rs.integrations.dask
import rmm
sys.exit(subprocess.run([sys.executable, "-c", {child!r}]).returncode)
"""
    succeeds(run(code, env={"PYTHONPATH": str(real)}))
    program = tmp_path / "program.py"
    program.write_text("""
import multiprocessing, rmm
def work(queue):
    import rmm_rs
    queue.put((rmm.__name__, rmm is rmm_rs))
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    assert queue.get(timeout=20) == ("rmm_rs", True)
    process.join()
""")
    arguments = ("-m", "rmm_rs", str(program))
    succeeds(run("", arguments=arguments, env={"PYTHONPATH": str(real)}))


def test_the_folder_for_processes_is_printed(run: Run) -> None:
    result = run("", arguments=("-m", "rmm_rs.integrations.processes"))
    succeeds(result)
    assert (Path(result.stdout.strip()) / "rmm.py").is_file()


def test_dask_cudas_plug_in_makes_its_stacks(run: Run, driver: Env, needs: Needs) -> None:
    needs("dask_cuda")
    succeeds(
        run(
            """
import rmm_rs.integrations.dask
import rmm
from dask_cuda.plugins import RMMSetup
from dask_cuda.utils import get_rmm_device_memory_usage
options = dict(
    initial_pool_size=None, maximum_pool_size=None, managed_memory=False, async_alloc=False,
    release_threshold=None, log_directory=None, track_allocations=True, external_lib_list=None,
)
for changed, kind in (
    ({"initial_pool_size": "1 MiB", "maximum_pool_size": "3MiB"}, rmm.mr.PoolMemoryResource),
    ({"initial_pool_size": 1000}, rmm.mr.PoolMemoryResource),
    ({"managed_memory": True}, rmm.mr.ManagedMemoryResource),
    ({"async_alloc": True, "release_threshold": "1MiB"}, rmm.mr.CudaAsyncMemoryResource),
    ({"async_alloc": True, "maximum_pool_size": "1MiB"}, rmm.mr.LimitingResourceAdaptor),
):
    RMMSetup(**{**options, **changed}).setup(None)
    current = rmm.mr.get_current_device_resource()
    assert type(current) is rmm.mr.TrackingResourceAdaptor, current
    assert type(current.upstream_mr) is kind, current
    live = rmm.DeviceBuffer(size=100)
    assert get_rmm_device_memory_usage() >= 100
    del live
    assert get_rmm_device_memory_usage() == 0
""",
            env=driver,
        )
    )


def test_distributed_sends_buffers(run: Run, driver: Env, needs: Needs) -> None:
    needs("distributed", "numba_cuda", "cuda.bindings")
    succeeds(
        run(
            """
import rmm_rs.integrations.dask
import rmm
from dask.sizeof import sizeof
from distributed.protocol import deserialize, serialize
for content in (b"", b"abc", bytes(range(256)) * 100):
    buffer = rmm.DeviceBuffer.to_device(content)
    assert sizeof(buffer) == len(content)
    for kind in ("dask", "cuda", "pickle"):
        if not content and kind == "dask":
            continue
        header, frames = serialize(buffer, serializers=[kind])
        assert header["serializer"] == kind, header
        assert deserialize(header, frames).tobytes() == content, kind
""",
            env=driver,
        )
    )


def test_buffers_are_spilled_to_the_host(
    run: Run, driver: Env, needs: Needs, tmp_path: Path
) -> None:
    needs("dask_cuda", "numba_cuda", "cuda.bindings")
    succeeds(
        run(
            f"""
import rmm_rs.integrations.dask
import rmm
from dask_cuda.device_host_file import DeviceHostFile
tracking = rmm.mr.TrackingResourceAdaptor(rmm.mr.CudaMemoryResource())
rmm.mr.set_current_device_resource(tracking)
spilling = DeviceHostFile({str(tmp_path)!r}, device_memory_limit=4096, memory_limit=1 << 30)
for number in range(10):
    spilling["x" + str(number)] = rmm.DeviceBuffer.to_device(bytes([number]) * 1024)
assert len(spilling.host) >= 6 and len(spilling.device) <= 4, spilling.host.keys()
assert tracking.get_allocated_bytes() <= 4096
for number in range(10):
    assert spilling["x" + str(number)].tobytes() == bytes([number]) * 1024
assert tracking.get_allocated_bytes() <= 4096
""",
            env=driver,
        )
    )


@pytest.mark.parametrize("protocol", ["tcp", "ucx"])
def test_a_cluster_of_dask_cuda_works(run: Run, driver: Env, needs: Needs, protocol: str) -> None:
    needs("dask_cuda", "numba_cuda", "cuda.core")
    if protocol == "ucx":
        needs("distributed_ucxx", "libucx")
    arguments = (str(HERE / "dask_program.py"), protocol)
    result = run("", arguments=arguments, env=driver, timeout=180)
    succeeds(result)
    assert result.stdout.splitlines()[-1] == "done", result.stdout


def test_the_guides_cluster_has_a_pool(run: Run, driver: Env, needs: Needs, tmp_path: Path) -> None:
    needs("dask_cuda", "numba_cuda", "cuda.core", "distributed_ucxx", "libucx")
    text = (HERE.parents[2] / "docs" / "engines.md").read_text()
    section = text.partition("\n## Dask\n")[2].partition("\n## ")[0]
    (printed,) = re.findall(r"```py\n(.*?)```", section, re.S)
    program = tmp_path / "program.py"
    program.write_text(
        f"""{printed.rstrip()}
    from distributed import Client

    def found():
        import rmm

        return rmm.__name__, rmm.mr.get_current_device_resource().pool_size()

    with cluster, Client(cluster) as client:
        print(*client.run(found).values())
"""
    )
    result = run("", arguments=(str(program),), env={**driver, "RMM_SIM_DEVICES": "1"}, timeout=180)
    succeeds(result)
    assert result.stdout.splitlines()[-1] == str(("rmm_rs", 8 << 30)), result.stdout
