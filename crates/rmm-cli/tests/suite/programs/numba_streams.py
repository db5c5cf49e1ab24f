"""A pipeline of two streams with numba-cuda: a copy to the device and, unless "fixed" is given, a copy back that does not wait for it."""

import gc
import sys

import numpy
from numba import cuda

fixed = "fixed" in sys.argv
load, save = cuda.stream(), cuda.stream()
host = numpy.arange(1024, dtype=numpy.float32)
result = numpy.zeros_like(host)
with cuda.pinned(host, result):
    device = cuda.device_array_like(host)
    device.copy_to_device(host, stream=load)
    if fixed:
        loaded = cuda.event()
        loaded.record(load)
        loaded.wait(save)
    device.copy_to_host(result, stream=save)
    save.synchronize()
    load.synchronize()
assert not fixed or (result == host).all()
# Numba frees memory later, in batches.
del device
gc.collect()
cuda.current_context().memory_manager.deallocations.clear()
