"""Calls the driver in a worker of `multiprocessing` and in one of a pool, and then in this process, which is right.

The arguments are the start method, and `right` or `wrong`: the workers free memory twice.
"""

import ctypes
import multiprocessing
import sys


def use(what):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
    assert cuda.cuMemFree_v2(memory) == 0
    assert what == "right" or cuda.cuMemFree_v2(memory) != 0
    assert cuda.cuDevicePrimaryCtxRelease_v2(0) == 0


if __name__ == "__main__":
    method, what = sys.argv[1:]
    context = multiprocessing.get_context(method)
    worker = context.Process(target=use, args=(what,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0, worker.exitcode
    with context.Pool(1) as pool:
        pool.apply(use, (what,))
        pool.close()
        pool.join()
    use("right")
