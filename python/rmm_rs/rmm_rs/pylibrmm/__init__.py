"""Buffers, streams and resources, at the places where RMM has its compiled ones."""

from rmm_rs.pylibrmm import memory_resource
from rmm_rs.pylibrmm.cuda_stream_pool import CudaStreamPool
from rmm_rs.pylibrmm.device_buffer import DeviceBuffer
from rmm_rs.pylibrmm.stream import CudaStreamFlags

from rmm_rs.pylibrmm import (  # noqa: F401  isort: skip
    cuda_stream_pool,
    device_buffer,
    helper,
    logger,
    stream,
    utils,
)

__all__ = [
    "CudaStreamFlags",
    "CudaStreamPool",
    "DeviceBuffer",
    "memory_resource",
]
