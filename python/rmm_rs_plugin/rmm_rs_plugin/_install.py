"""The pool for all devices at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import rmm
from rmm._cuda.gpu import getDevice, setDevice

from rmm_rs_plugin._plugin import DeferredMemoryResource, PoolMemoryResource

__all__ = ["install", "install_deferred"]


def install(
    initial_pool_size: int | str | None = None,
    maximum_pool_size: int | str | None = None,
    devices: int | Iterable[int] = 0,
    *,
    preset: Literal["throughput", "low-latency", "compact", "deterministic"] = "throughput",
    stream_policy: Literal["checked", "kept"] = "checked",
) -> list[PoolMemoryResource]:
    """Makes a pool for each device, over the driver's memory, and sets it as RMM's resource of that
    device. The current device is the same afterwards.

    Parameters
    ----------
    devices : int or iterable of int
        The numbers of the devices.

    The other parameters are those of `PoolMemoryResource`, for each of the pools, which are returned
    in the order of the devices. If one cannot be made, no resource has been set.
    """
    numbers = [devices] if isinstance(devices, int) else list(devices)
    before = getDevice()
    pools = []
    try:
        for device in numbers:
            # A pool is of the device that is current when it is made.
            setDevice(device)
            pools.append(
                PoolMemoryResource(
                    None,
                    initial_pool_size,
                    maximum_pool_size,
                    preset=preset,
                    stream_policy=stream_policy,
                )
            )
    finally:
        setDevice(before)
    for device, pool in zip(numbers, pools, strict=True):
        rmm.mr.set_per_device_resource(device, pool)
    return pools


def install_deferred(
    spec: str = "pool",
    devices: int | Iterable[int] = 0,
    *,
    stream_policy: Literal["checked", "kept"] = "checked",
) -> list[DeferredMemoryResource]:
    """Sets a resource of each device that is made at its first request, for processes that are told
    their devices later, by ``CUDA_VISIBLE_DEVICES``. Asks no driver.

    Parameters
    ----------
    spec : str
        The stack of each device, such as ``"pool(max=8GiB)"``.
    devices : int or iterable of int
        The numbers of the devices, as the process will count them.
    stream_policy : str
        As for `PoolMemoryResource`.

    Returns the resources in the order of the devices. If one cannot be made, none has been set.
    """
    numbers = [devices] if isinstance(devices, int) else list(devices)
    resources = [DeferredMemoryResource(spec, stream_policy=stream_policy) for _ in numbers]
    for device, resource in zip(numbers, resources, strict=True):
        rmm.mr.set_per_device_resource(device, resource)
    return resources
