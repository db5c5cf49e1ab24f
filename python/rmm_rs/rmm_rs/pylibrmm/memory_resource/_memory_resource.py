"""The classes of memory resources, and what is set for each device."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

from rmm_rs import _rmm
from rmm_rs._cuda.gpu import CUDARuntimeError, getDevice, setDevice
from rmm_rs._rmm import *  # noqa: F403
from rmm_rs._rmm import _append_id as _append_id  # isort: skip
from rmm_rs.pylibrmm.memory_resource import experimental as experimental
# Some of them say that this is their module, where a pickle looks for a class.
from rmm_rs.pylibrmm.memory_resource._beyond_rmm import *  # noqa: F403

# RMM's names: the only list of them, which the packages above have too.
__all__ = [
    "ArenaMemoryResource",
    "BinningMemoryResource",
    "CallbackMemoryResource",
    "CudaAsyncMemoryResource",
    "CudaAsyncViewMemoryResource",
    "CudaMemoryResource",
    "DeviceMemoryResource",
    "FailureCallbackResourceAdaptor",
    "FixedSizeMemoryResource",
    "LimitingResourceAdaptor",
    "LoggingResourceAdaptor",
    "ManagedMemoryResource",
    "PinnedHostMemoryResource",
    "PoolMemoryResource",
    "PrefetchResourceAdaptor",
    "SamHeadroomMemoryResource",
    "StatisticsResourceAdaptor",
    "SystemMemoryResource",
    "TrackingResourceAdaptor",
    "UpstreamResourceAdaptor",
    "available_device_memory",
    "disable_logging",
    "enable_logging",
    "experimental",
    "get_current_device_resource",
    "get_log_filenames",
    "get_per_device_resource",
    "is_initialized",
    "set_current_device_resource",
    "set_per_device_resource",
]

_CUDA_ERROR_NO_DEVICE = 100


def _initialize(
    pool_allocator: bool = False,
    managed_memory: bool = False,
    initial_pool_size: int | str | None = None,
    maximum_pool_size: int | str | None = None,
    devices: int | Iterable[int] | None = 0,
    logging: bool = False,
    log_file_name: str | os.PathLike[str] | None = None,
) -> None:
    """Gives each device a new resource. See `rmm_rs.reinitialize`."""
    upstream = ManagedMemoryResource if managed_memory else CudaMemoryResource
    # Before anything changes: a wrong size leaves all as it was.
    sizes: dict[str, Any] = {}
    if pool_allocator:
        sizes = {
            name: None if size is None else parse_bytes(size)
            for name, size in (
                ("initial_pool_size", initial_pool_size),
                ("maximum_pool_size", maximum_pool_size),
            )
        }
    if devices is None:
        devices = [0]
    elif isinstance(devices, int):
        devices = [devices]
    try:
        original = getDevice()
    except CUDARuntimeError as error:
        if error.status != _CUDA_ERROR_NO_DEVICE:
            raise
        warnings.warn(error.msg, stacklevel=3)
        return
    _rmm._forget_resources()
    # One for all devices, as in RMM: it asks the driver for memory of the current device.
    base = upstream()
    directory = os.environ.get("RMM_OOM_REPORT") or None
    try:
        for device in devices:
            setDevice(device)
            resource: DeviceMemoryResource = base
            if pool_allocator:
                resource = PoolMemoryResource(base, **sizes, oom_report=directory)
            elif directory is not None:
                resource = RecorderResourceAdaptor(base, oom_report=directory)
            if logging:
                resource = LoggingResourceAdaptor(resource, log_file_name)
            set_per_device_resource(device, resource)
    finally:
        setDevice(original)


def _flush_logs() -> None:
    """Flushes the logs of the devices' resources."""
    for resource in _rmm._per_device_resources().values():
        if isinstance(resource, LoggingResourceAdaptor):
            resource.flush()


def enable_logging(log_file_name: str | os.PathLike[str] | None = None) -> None:
    """Logs what every device's resource does.

    Parameters
    ----------
    log_file_name : str or path, optional
        The file, into whose name each device's number goes; by default the one that the
        environment variable ``RMM_LOG_FILE`` names.

    Raises
    ------
    ValueError
        If no file is named.
    """
    for device in list(_rmm._per_device_resources()) or [0]:
        resource = get_per_device_resource(device)
        if not isinstance(resource, LoggingResourceAdaptor):
            logged = LoggingResourceAdaptor(resource, log_file_name)
            set_per_device_resource(device, logged)


def disable_logging() -> None:
    """Ends what `enable_logging` or `reinitialize` began."""
    for device, resource in _rmm._per_device_resources().items():
        if isinstance(resource, LoggingResourceAdaptor):
            resource.flush()
            set_per_device_resource(device, resource.get_upstream())


def get_log_filenames() -> dict[int, str | None]:
    """The log file of each device that is in use; None for those that are not logged."""
    return {
        device: resource.get_file_name()
        if isinstance(resource, LoggingResourceAdaptor)
        else None
        for device, resource in _rmm._per_device_resources().items()
    }

