"""A kernel writes a buffer on one stream, another one reads it. With the argument "fixed", the second stream waits."""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_size_t, c_uint64, c_void_p

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)


def made(name, *arguments):
    handle = c_void_p()
    call(name, byref(handle), *arguments)
    return handle


call("cuInit", 0)
call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
produce, consume = made("cuStreamCreate", 1), made("cuStreamCreate", 1)
module = made("cuModuleLoadData", b"any image")
fill = made("cuModuleGetFunction", module, c_char_p(b"fill"))
memory = c_uint64()
call("cuMemAlloc_v2", byref(memory), c_size_t(4096))
value, count = c_float(1.0), c_size_t(1024)
parameters = (c_void_p * 3)(*[ctypes.cast(byref(p), c_void_p) for p in (memory, value, count)])
call("cuLaunchKernel", fill, 4, 1, 1, 256, 1, 1, 0, produce, parameters, None)
if "fixed" in sys.argv:
    filled = made("cuEventCreate", 2)
    call("cuEventRecord", filled, produce)
    call("cuStreamWaitEvent", consume, filled, 0)
    call("cuEventDestroy_v2", filled)
target = (ctypes.c_ubyte * 4096)()
call("cuMemcpyDtoHAsync_v2", target, memory, c_size_t(4096), consume)
call("cuStreamSynchronize", consume)
call("cuStreamSynchronize", produce)
call("cuMemFree_v2", memory)
call("cuModuleUnload", module)
call("cuStreamDestroy_v2", produce)
call("cuStreamDestroy_v2", consume)
