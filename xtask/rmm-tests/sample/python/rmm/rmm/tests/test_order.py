"""Memory that two streams use, and nothing orders."""

import rmm
from rmm.pylibrmm.device_buffer import copy_device_to_ptr
from rmm.pylibrmm.stream import Stream


def test_race():
    one, other = Stream(), Stream()
    buffers = [rmm.DeviceBuffer(size=1000, stream=one) for _ in range(2)]
    one.synchronize()
    copy_device_to_ptr(buffers[0].ptr, buffers[1].ptr, 1000, one)
    copy_device_to_ptr(buffers[0].ptr, buffers[1].ptr, 1000, other)
    other.synchronize()
    one.synchronize()
