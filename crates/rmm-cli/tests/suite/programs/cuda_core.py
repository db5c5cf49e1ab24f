"""NVIDIA's cuda-core: a buffer is filled on one stream and copied on another, which waits if an argument is "fixed"."""

import sys

from cuda.core import Device

device = Device(0)
device.set_current()
produce, consume = device.create_stream(), device.create_stream()
source = device.memory_resource.allocate(4096, stream=produce)
source.fill(1, stream=produce)
if "fixed" in sys.argv:
    consume.wait(produce)
target = device.memory_resource.allocate(4096, stream=consume)
source.copy_to(target, stream=consume)
consume.sync()
produce.sync()
target.close(consume)
source.close(produce)
