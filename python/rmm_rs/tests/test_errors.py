"""What wrong arguments and failed requests raise."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rmm_rs
from rmm_rs import lease, mr
from rmm_rs.pylibrmm.device_buffer import (
    copy_device_to_ptr,
    copy_host_to_ptr,
    copy_ptr_to_host,
    to_device,
)
from rmm_rs.pylibrmm.helper import parse_bytes

HUGE = 1 << 50

RESOURCES: dict[str, Callable[[], mr.DeviceMemoryResource]] = {
    "cuda": lambda: mr.CudaMemoryResource(),
    "managed": lambda: mr.ManagedMemoryResource(),
    "pinned": lambda: mr.PinnedHostMemoryResource(),
    "async": lambda: mr.CudaAsyncMemoryResource(),
    "pool": lambda: mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB", "16MiB"),
    "arena": lambda: mr.ArenaMemoryResource(mr.CudaMemoryResource(), "64MiB"),
    "fixed size": lambda: mr.FixedSizeMemoryResource(mr.CudaMemoryResource(), 1 << 12, 4),
    "binning": lambda: mr.BinningMemoryResource(mr.CudaMemoryResource(), 10, 12),
    "limiting": lambda: mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1 << 20),
    "statistics": lambda: mr.StatisticsResourceAdaptor(mr.CudaMemoryResource()),
    "tracking": lambda: mr.TrackingResourceAdaptor(mr.CudaMemoryResource()),
    "prefetch": lambda: mr.PrefetchResourceAdaptor(mr.ManagedMemoryResource()),
    "failure callback": lambda: mr.FailureCallbackResourceAdaptor(
        mr.CudaMemoryResource(), lambda size: False
    ),
    "callback": lambda: _forwarding(mr.CudaMemoryResource()),
    "async pinned": lambda: mr.CudaAsyncPinnedMemoryResource(),
    "async managed": lambda: mr.experimental.CudaAsyncManagedMemoryResource(),
    "registered": lambda: mr.RegisteredHostMemoryResource(1, "any"),
    "host virtual": lambda: mr.HostVirtualMemoryResource(),
    "virtual": lambda: mr.VirtualMemoryResource(),
    "backing": lambda: mr.BackingMemoryResource(),
    "aligned": lambda: mr.AlignedResourceAdaptor(mr.CudaMemoryResource()),
    "logging": lambda: mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), os.devnull),
    "recorder": lambda: mr.RecorderResourceAdaptor(mr.CudaMemoryResource()),
    "tagged": lambda: mr.TaggedResourceAdaptor(mr.CudaMemoryResource()),
    "thread safe": lambda: mr.ThreadSafeResourceAdaptor(mr.CudaMemoryResource()),
    "fallback": lambda: mr.FallbackMemoryResource(
        mr.CudaMemoryResource(), mr.ManagedMemoryResource()
    ),
    "spec": lambda: mr.SpecMemoryResource("statistics(pool(cuda, max=16MiB))"),
}


# The roots; a reservation is a pool's; the rest needs an owner, a pool of the program, or another
# device.
NOT_HERE = {
    mr.DeviceMemoryResource,
    mr.UpstreamResourceAdaptor,
    mr.Reservation,
    lease.LeasedMemoryResource,
    mr.CudaAsyncViewMemoryResource,
    mr.SystemMemoryResource,
    mr.SamHeadroomMemoryResource,
}


def test_no_class_of_resources_is_missing_here(
    resource_classes: dict[str, type[mr.DeviceMemoryResource]],
) -> None:
    classes = set(resource_classes.values())
    assert {type(make()) for make in RESOURCES.values()} == classes - NOT_HERE


def _forwarding(base: mr.DeviceMemoryResource) -> mr.CallbackMemoryResource:
    return mr.CallbackMemoryResource(base.allocate, base.deallocate)


@pytest.fixture(params=RESOURCES)
def resource(request: pytest.FixtureRequest) -> mr.DeviceMemoryResource:
    return RESOURCES[request.param]()


def test_a_resource_allocates_and_frees(resource: mr.DeviceMemoryResource) -> None:
    for stream in (rmm_rs.pylibrmm.stream.DEFAULT_STREAM, rmm_rs.pylibrmm.stream.Stream()):
        address = resource.allocate(1000, stream)
        assert address % 256 == 0 and address != 0
        resource.deallocate(address, 1000, stream)
    assert resource.allocate(0) == 0
    resource.deallocate(0, 0)


def test_a_request_beyond_all_memory_is_a_memory_error(
    resource: mr.DeviceMemoryResource,
) -> None:
    with pytest.raises(MemoryError, match="^std::bad_alloc: out_of_memory: "):
        resource.allocate(HUGE)
    with pytest.raises(MemoryError, match="^std::bad_alloc: out_of_memory: "):
        resource.allocate(2**64 - 1)


@pytest.mark.parametrize(
    ("size", "error"),
    [(-1, OverflowError), (2**64, OverflowError), (1.5, TypeError), ("1", TypeError),
     (None, TypeError)],
)
def test_a_wrong_size_is_refused(
    resource: mr.DeviceMemoryResource, size: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        resource.allocate(size)
    with pytest.raises(error):
        rmm_rs.DeviceBuffer(size=size, mr=resource)


def test_a_stream_argument_must_be_a_stream(resource: mr.DeviceMemoryResource) -> None:
    with pytest.raises(TypeError, match="stream argument cannot be None"):
        resource.allocate(1, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        resource.allocate(1, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="stream argument cannot be None"):
        resource.deallocate(1, 1, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda b: rmm_rs.DeviceBuffer(size=1, stream=None),  # type: ignore[arg-type]
        lambda b: rmm_rs.DeviceBuffer.to_device(b"a", stream=None),  # type: ignore[arg-type]
        lambda b: to_device(b"a", stream=None),  # type: ignore[arg-type]
        lambda b: b.tobytes(stream=None),
        lambda b: b.copy_to_host(stream=None),
        lambda b: b.copy_from_host(b"a", stream=None),
        lambda b: b.copy_from_device(b, stream=None),
        lambda b: b.resize(1, stream=None),
        lambda b: b.reserve(1, stream=None),
        lambda b: copy_ptr_to_host(b.ptr, bytearray(1), stream=None),  # type: ignore[arg-type]
        lambda b: copy_host_to_ptr(b"a", b.ptr, stream=None),  # type: ignore[arg-type]
        lambda b: copy_device_to_ptr(b.ptr, b.ptr, 0, stream=None),  # type: ignore[arg-type]
    ],
)
def test_no_stream_is_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="stream argument cannot be None"):
        call(rmm_rs.DeviceBuffer(size=10))


@pytest.mark.parametrize("host", [None, "text", 3])
def test_what_has_no_memory_is_a_type_error(host: Any) -> None:
    buffer = rmm_rs.DeviceBuffer(size=10)
    with pytest.raises(TypeError):
        rmm_rs.DeviceBuffer.to_device(host)
    with pytest.raises(TypeError):
        copy_host_to_ptr(host, buffer.ptr)
    with pytest.raises(TypeError):
        copy_ptr_to_host(buffer.ptr, host)
    with pytest.raises(TypeError):
        buffer.copy_from_host(host)


@pytest.mark.parametrize(
    "host",
    [np.zeros(3, "f8"), np.zeros((2, 2), "u1"), np.zeros(8, "u1")[::2], np.zeros(3, "i1")],
)
def test_other_memory_than_bytes_is_a_value_error(host: Any) -> None:
    buffer = rmm_rs.DeviceBuffer(size=4)
    with pytest.raises(ValueError):
        rmm_rs.DeviceBuffer.to_device(host)
    with pytest.raises(ValueError):
        buffer.copy_from_host(host)
    with pytest.raises(ValueError):
        buffer.copy_to_host(host)


def test_host_memory_of_the_wrong_size_is_refused() -> None:
    buffer = rmm_rs.DeviceBuffer(size=4)
    with pytest.raises(ValueError, match="Argument `ary` is too small"):
        buffer.copy_to_host(bytearray(3))
    with pytest.raises(ValueError, match="Argument `ary` is too large"):
        buffer.copy_from_host(b"12345")
    with pytest.raises(BufferError):
        buffer.copy_to_host(b"1234")


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("0", 0), ("12", 12), ("1b", 1), ("2 kb", 2000), ("2KiB", 2048), ("1.5 MiB", 3 << 19),
     ("1gb", 10**9), ("1\tGiB", 1 << 30), ("2.PB", 2 * 10**15), ("1pib", 1 << 50), (7, 7)],
)
def test_sizes_are_parsed(text: Any, bytes_: int) -> None:
    assert parse_bytes(text) == bytes_


@pytest.mark.parametrize(
    ("text", "error"),
    [("2k", ValueError), ("", ValueError), ("kb", ValueError), ("-1", ValueError),
     ("1 ib", ValueError), ("1..5", ValueError), ("1 eb", ValueError), ("9" * 400, ValueError),
     (" 1", ValueError), ("1kb ", ValueError), (1.5, TypeError), (None, TypeError)],
)
def test_what_is_no_size_is_refused(text: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_bytes(text)
    if text is not None:
        with pytest.raises(error):
            mr.PoolMemoryResource(mr.CudaMemoryResource(), text)


ADAPTORS: list[Callable[[Any], Any]] = [
    lambda up: mr.UpstreamResourceAdaptor(up),
    lambda up: mr.PoolMemoryResource(up),
    lambda up: mr.ArenaMemoryResource(up),
    lambda up: mr.FixedSizeMemoryResource(up),
    lambda up: mr.BinningMemoryResource(up),
    lambda up: mr.LimitingResourceAdaptor(up, 1),
    lambda up: mr.LoggingResourceAdaptor(up, "file"),
    lambda up: mr.StatisticsResourceAdaptor(up),
    lambda up: mr.TrackingResourceAdaptor(up),
    lambda up: mr.FailureCallbackResourceAdaptor(up, bool),
    lambda up: mr.PrefetchResourceAdaptor(up),
]


@pytest.mark.parametrize("make", ADAPTORS)
def test_an_adaptor_needs_an_upstream(make: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="must not be None"):
        make(None)
    with pytest.raises(TypeError):
        make(3)


def test_a_bare_base_class_has_no_memory() -> None:
    for bare in (
        mr.DeviceMemoryResource(),
        mr.UpstreamResourceAdaptor(mr.CudaMemoryResource()),
    ):
        with pytest.raises(RuntimeError):
            bare.allocate(1)
        with pytest.raises(RuntimeError):
            mr.StatisticsResourceAdaptor(bare)
        with pytest.raises(RuntimeError):
            mr.set_current_device_resource(bare)


def test_calls_that_end_rmms_process_raise() -> None:
    with pytest.raises(TypeError):
        mr.set_per_device_resource(0, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        mr.FixedSizeMemoryResource(mr.CudaMemoryResource(), 0)


def test_a_pool_refuses_sizes_in_rmms_words() -> None:
    base = mr.CudaMemoryResource()
    with pytest.raises(RuntimeError, match="Initial pool size exceeds the maximum pool size"):
        mr.PoolMemoryResource(base, "2MiB", "1MiB")
    with pytest.raises(RuntimeError, match="multiple of 256"):
        mr.PoolMemoryResource(base, 1000)
    with pytest.raises(RuntimeError, match="multiple of 256"):
        mr.PoolMemoryResource(base, 0, 1000)
    with pytest.raises(OverflowError):
        mr.PoolMemoryResource(base, -1)
    with pytest.raises(ValueError, match="preset"):
        mr.PoolMemoryResource(base, 0, preset="other")


def test_exponents_of_bins_are_eight_bits() -> None:
    with pytest.raises(OverflowError):
        mr.BinningMemoryResource(mr.CudaMemoryResource(), 1000, 1000)
    with pytest.raises(ValueError):
        mr.BinningMemoryResource(mr.CudaMemoryResource(), 64, 65)


def test_only_pools_of_cuda_bindings_are_viewed() -> None:
    with pytest.raises(ValueError):
        mr.CudaAsyncViewMemoryResource(1)


def test_setting_what_is_no_resource_is_refused() -> None:
    with pytest.raises(TypeError):
        mr.set_current_device_resource("pool")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        mr.set_per_device_resource(-1, mr.CudaMemoryResource())


def test_a_failed_copy_names_its_code(run: Callable[..., Any], tmp_path: Path) -> None:
    # In a process of its own: the software driver reports the copy.
    code = """
import rmm_rs
from rmm_rs.pylibrmm.device_buffer import copy_device_to_ptr
one, two = rmm_rs.DeviceBuffer(size=256), rmm_rs.DeviceBuffer(size=256)
try:
    copy_device_to_ptr(one.ptr, two.ptr, 1 << 40)
except RuntimeError as error:
    print(error)
"""
    result = run(code, env={"RMM_SIM_REPORT": str(tmp_path)})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("Memcpy failed with error: 1\n")


def test_without_a_driver_only_memory_fails(run: Callable[..., Any]) -> None:
    code = """
import sys, rmm_rs
assert "numpy" not in sys.modules and "cuda" not in sys.modules
resource = rmm_rs.mr.CudaMemoryResource()
try:
    resource.allocate(1)
except RuntimeError as error:
    assert "driver" in str(error), error
else:
    raise SystemExit("it worked")
assert rmm_rs._cuda.gpu.driverGetVersion() == 0
try:
    rmm_rs._cuda.gpu.getDevice()
except rmm_rs._cuda.gpu.CUDARuntimeError as error:
    assert error.status == 35 and "cudaErrorInsufficientDriver" in str(error)
"""
    result = run(code, env={"RMM_CUDA_LIBRARY": "/nonexistent/libcuda.so"})
    assert (result.returncode, result.stderr) == (0, "")


def test_errors_of_cuda_are_pickled() -> None:
    import pickle

    from rmm_rs._cuda import gpu

    with pytest.raises(gpu.CUDARuntimeError, match="cudaErrorInvalidDevice: ") as caught:
        gpu.setDevice(77)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.status, str(again)) == (
        gpu.CUDARuntimeError, 101, str(caught.value),
    )
    with pytest.raises(gpu.CUDADriverError, match="CUDA_ERROR_INVALID_DEVICE: "):
        gpu.deviceGetName(77)


def test_an_error_of_cuda_says_its_name_once() -> None:
    from rmm_rs._cuda import gpu

    for error, name in (
        (gpu.CUDARuntimeError(2), "cudaErrorMemoryAllocation"),
        (gpu.CUDADriverError(2), "CUDA_ERROR_OUT_OF_MEMORY"),
    ):
        assert str(error) == f"{name}: {error.msg}" and "CUDA_ERROR" not in error.msg


WITHOUT_A_DRIVER = {
    "DeviceBuffer(size=1)",
    "DeviceBuffer(size=1, stream=Stream(), mr=mr.CudaMemoryResource())",
    "DeviceBuffer.to_device(b'abc')",
    "mr.CudaMemoryResource().allocate(1)",
    "mr.PinnedHostMemoryResource().allocate(1, Stream())",
    "mr.PoolMemoryResource(mr.CudaMemoryResource(), '1MiB')",
    "mr.CudaAsyncMemoryResource()",
    "mr.set_current_device_resource(mr.CudaMemoryResource())",
    "mr.get_current_device_resource()",
    "mr.available_device_memory()",
    "rmm_rs.default_pool().allocate(1)",
    "rmm_rs.reinitialize(pool_allocator=True, initial_pool_size='1MiB')",
    "Stream()",
    "DEFAULT_STREAM.synchronize()",
    "getDevice()",
    "getDeviceCount()",
}


def test_every_call_without_a_driver_raises_one_class(run: Callable[..., Any]) -> None:
    code = f"""
import rmm_rs
from rmm_rs import DeviceBuffer, mr
from rmm_rs._cuda.gpu import getDevice, getDeviceCount
from rmm_rs.pylibrmm.stream import DEFAULT_STREAM, Stream
for call in {sorted(WITHOUT_A_DRIVER)!r}:
    try:
        eval(call)
    except RuntimeError as error:
        print(call, error)
    else:
        raise SystemExit(call)
"""
    result = run(code, env={"RMM_CUDA_LIBRARY": "libcuda-that-is-not-there.so", "RMM_DRIVER": ""})
    assert (result.returncode, result.stderr) == (0, "")
    assert "Traceback" not in result.stdout, result.stdout
