"""Buffers as tensors of DLPack."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

from rmm_rs import DeviceBuffer, mr
from rmm_rs.pylibrmm.device_buffer import to_device
from rmm_rs.pylibrmm.stream import Stream


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLPack before 1.0."""

    _fields_ = [("tensor", DLTensor), ("kept", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("kept", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64),
                ("tensor", DLTensor)]


def _pointer(capsule: Any, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, name))


LAYOUTS: dict[str, Any] = {
    "old": (None, b"dltensor", Managed),
    "new": ((1, 0), b"dltensor_versioned", Versioned),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [0, 100])
def test_a_tensor_is_the_buffers_memory(layout: str, size: int) -> None:
    version, name, structure = LAYOUTS[layout]
    buffer = DeviceBuffer(size=size)
    capsule = buffer.__dlpack__(max_version=version)
    tensor = structure.from_address(_pointer(capsule, name)).tensor
    assert (tensor.data or 0, tensor.ndim, tensor.shape[0]) == (buffer.ptr, 1, size)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (1, 8, 1, 0)
    assert (tensor.device_type, tensor.device_id) == buffer.__dlpack_device__() == (2, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("takes", [False, True])
def test_a_tensor_keeps_the_buffer(layout: str, takes: bool) -> None:
    version, name, structure = LAYOUTS[layout]
    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    buffer = DeviceBuffer(size=100, mr=tracking)
    capsule = buffer.__dlpack__(max_version=version)
    with pytest.raises(RuntimeError, match="exported"):
        buffer.resize(1000)
    del buffer
    gc.collect()
    assert tracking.get_allocated_bytes() == 100
    if takes:
        address = _pointer(capsule, name)
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        assert rename(capsule, b"used") == 0
        del capsule
        assert tracking.get_allocated_bytes() == 100
        structure.from_address(address).deleter(address)
    else:
        del capsule
    assert tracking.get_allocated_bytes() == 0


def test_a_buffer_is_resized_again_after_its_tensors() -> None:
    buffer = DeviceBuffer(size=100)
    one, two = buffer.__dlpack__(), buffer.__dlpack__(max_version=(1, 1))
    del one
    with pytest.raises(RuntimeError):
        buffer.reserve(1000)
    del two
    buffer.resize(1000)


def test_streams_are_ordered() -> None:
    own, other = Stream(), Stream()
    buffer = DeviceBuffer(size=100, stream=own)
    for stream in (None, 1, 2, -1, other.__cuda_stream__()[1], own.__cuda_stream__()[1]):
        buffer.__dlpack__(stream=stream)
    with pytest.raises(ValueError):
        buffer.__dlpack__(stream=0)
    with pytest.raises(ValueError):
        buffer.__dlpack__(stream=-2)


def test_a_tensor_may_be_a_copy() -> None:
    buffer = to_device(b"contents")
    capsule = buffer.__dlpack__(max_version=(1, 0), copy=True)
    tensor = Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
    assert tensor.tensor.data != buffer.ptr and tensor.flags == 2
    assert bytes(DeviceBuffer(ptr=tensor.tensor.data, size=8)) == b"contents"
    buffer.resize(100)


def test_other_devices_are_refused() -> None:
    buffer = DeviceBuffer(size=10)
    buffer.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        buffer.__dlpack__(dl_device=(1, 0))


def test_a_kind_of_memory_is_a_device() -> None:
    kinds = {
        13: mr.ManagedMemoryResource(),
        3: mr.PinnedHostMemoryResource(),
        2: mr.PoolMemoryResource(mr.CudaMemoryResource(), 0),
    }
    for kind, resource in kinds.items():
        assert DeviceBuffer(size=10, mr=resource).__dlpack_device__() == (kind, 0)


def test_numpy_takes_no_memory_of_a_device() -> None:
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(DeviceBuffer(size=10))
