"""Memory of the device, and copies from and to it."""

from rmm_rs._rmm import (
    DeviceBuffer,
    copy_device_to_ptr,
    copy_host_to_ptr,
    copy_ptr_to_host,
    to_device,
)

# Pickles name the function by it.
try:
    to_device.__module__ = __name__
except (AttributeError, TypeError):  # then by where it is from
    pass

__all__ = [
    "DeviceBuffer",
    "copy_device_to_ptr",
    "copy_host_to_ptr",
    "copy_ptr_to_host",
    "to_device",
]
