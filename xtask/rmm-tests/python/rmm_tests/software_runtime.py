"""The functions of the CUDA runtime that RMM's Python tests call, over the driver's.

NVIDIA's runtime does not start on the software driver: it asks for private tables of the driver.
These five are all that the tests need of it, beside what needs no driver.
"""

from cuda.bindings import driver, runtime


def _status(code):
    """The runtime's code: the numbers are the same."""
    return runtime.cudaError_t(int(code))


def _initialised():
    (code,) = driver.cuInit(0)
    return code


def cudaGetDevice():
    code, device = driver.cuCtxGetDevice()
    codes = driver.CUresult
    if code in (codes.CUDA_ERROR_INVALID_CONTEXT, codes.CUDA_ERROR_NOT_INITIALIZED):
        # The runtime's current device, before anything has made one current.
        return _status(_initialised()), 0
    return _status(code), int(device)


def cudaDeviceGetDefaultMemPool(device):
    if code := _initialised():
        return _status(code), None
    code, pool = driver.cuDeviceGetDefaultMemPool(device)
    return _status(code), None if code else runtime.cudaMemPool_t(int(pool))


def cudaMemPoolCreate(poolProps):
    if code := _initialised():
        return _status(code), None
    properties = driver.CUmemPoolProps()
    properties.allocType = driver.CUmemAllocationType(int(poolProps.allocType))
    properties.handleTypes = driver.CUmemAllocationHandleType(int(poolProps.handleTypes))
    properties.location.type = driver.CUmemLocationType(int(poolProps.location.type))
    properties.location.id = poolProps.location.id
    properties.maxSize = poolProps.maxSize
    properties.usage = poolProps.usage
    code, pool = driver.cuMemPoolCreate(properties)
    return _status(code), None if code else runtime.cudaMemPool_t(int(pool))


def cudaMemPoolDestroy(memPool):
    (code,) = driver.cuMemPoolDestroy(driver.CUmemoryPool(int(memPool)))
    return (_status(code),)


def cudaMemRangeGetAttribute(dataSize, attribute, devPtr, count):
    code, value = driver.cuMemRangeGetAttribute(
        dataSize, driver.CUmem_range_attribute(int(attribute)), devPtr, count
    )
    return _status(code), value


FUNCTIONS = (
    cudaGetDevice,
    cudaDeviceGetDefaultMemPool,
    cudaMemPoolCreate,
    cudaMemPoolDestroy,
    cudaMemRangeGetAttribute,
)


def install():
    """Puts them in the place of the runtime's."""
    for function in FUNCTIONS:
        setattr(runtime, function.__name__, function)
