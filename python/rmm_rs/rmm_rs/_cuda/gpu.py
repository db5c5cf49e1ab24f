"""Devices, and the errors of CUDA."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TypeVar

from rmm_rs import _rmm

# The runtime's names of the codes that it shares with the driver.
_RUNTIME_NAMES = {
    0: "cudaSuccess",
    1: "cudaErrorInvalidValue",
    2: "cudaErrorMemoryAllocation",
    3: "cudaErrorInitializationError",
    4: "cudaErrorCudartUnloading",
    34: "cudaErrorStubLibrary",
    35: "cudaErrorInsufficientDriver",
    46: "cudaErrorDevicesUnavailable",
    100: "cudaErrorNoDevice",
    101: "cudaErrorInvalidDevice",
    201: "cudaErrorDeviceUninitialized",
    214: "cudaErrorECCUncorrectable",
    304: "cudaErrorOperatingSystem",
    400: "cudaErrorInvalidResourceHandle",
    500: "cudaErrorSymbolNotFound",
    600: "cudaErrorNotReady",
    700: "cudaErrorIllegalAddress",
    702: "cudaErrorLaunchTimeout",
    709: "cudaErrorContextIsDestroyed",
    719: "cudaErrorLaunchFailure",
    800: "cudaErrorNotPermitted",
    801: "cudaErrorNotSupported",
    803: "cudaErrorSystemDriverMismatch",
    900: "cudaErrorStreamCaptureUnsupported",
    901: "cudaErrorStreamCaptureInvalidated",
    999: "cudaErrorUnknown",
}
_NO_DRIVER = 35


def _as_enum(module: str, enum: str, status: int) -> Any:
    """The status as an enum of ``cuda.bindings``, if that is installed."""
    try:
        bindings = __import__(f"cuda.bindings.{module}", fromlist=[enum])
        return getattr(bindings, enum)(int(status))
    except (ImportError, AttributeError, ValueError):
        return status


class _CUDAError(RuntimeError):
    status: Any
    msg: str

    def __reduce__(self) -> tuple[type[_CUDAError], tuple[int]]:
        return (type(self), (int(self.status),))


class CUDARuntimeError(_CUDAError):
    """An error of CUDA, under the runtime's name.

    Parameters
    ----------
    status : int or cudaError_t
        The code. As an attribute it equals both an `int` and the enum of ``cuda.bindings``.
    """

    def __init__(self, status: Any) -> None:
        code = int(status)
        driver_name, text = _rmm._code_text(code)
        name = _RUNTIME_NAMES.get(code, driver_name)
        if code == _NO_DRIVER:
            text = "there is no CUDA driver, or it is too old"
        self.status = _as_enum("runtime", "cudaError_t", code)
        self.msg = text
        super().__init__(f"{name}: {text}")


class CUDADriverError(_CUDAError):
    """An error of CUDA, under the driver's name.

    Parameters
    ----------
    status : int or CUresult
        The code.
    """

    def __init__(self, status: Any) -> None:
        name, text = _rmm._code_text(int(status))
        self.status = _as_enum("driver", "CUresult", int(status))
        self.msg = text
        super().__init__(f"{name}: {text}")


T = TypeVar("T")


def _checked(outcome: tuple[int, T]) -> T:
    status, value = outcome
    if status:
        raise CUDARuntimeError(status)
    return value


def driverGetVersion() -> int:
    """The version of CUDA that the driver supports, such as 13020; 0 if there is no driver."""
    return _checked(_rmm._driver_version())


def getDevice() -> int:
    """The number of the current device."""
    return _checked(_rmm._device_get())


def setDevice(device: int) -> None:
    """Makes a device current on this thread."""
    _checked(_rmm._device_set(device))


def runtimeGetVersion() -> int:
    """The version of the CUDA runtime: the driver's, since no runtime is used here."""
    return driverGetVersion()


def getDeviceCount() -> int:
    """How many devices there are."""
    return _checked(_rmm._device_count())


def getDeviceAttribute(attr: Any, device: int) -> int:
    """An attribute of a device.

    Parameters
    ----------
    attr : cudaDeviceAttr or int
    device : int
    """
    return _checked(_rmm._device_attribute(int(attr), device))


# Names of `cudaDeviceProp`, and the numbers of their attributes.
_PROPERTIES = {
    "maxThreadsPerBlock": 1,
    "warpSize": 10,
    "regsPerBlock": 12,
    "clockRate": 13,
    "multiProcessorCount": 16,
    "integrated": 18,
    "canMapHostMemory": 19,
    "computeMode": 20,
    "concurrentKernels": 31,
    "ECCEnabled": 32,
    "pciBusID": 33,
    "pciDeviceID": 34,
    "tccDriver": 35,
    "memoryClockRate": 36,
    "memoryBusWidth": 37,
    "l2CacheSize": 38,
    "maxThreadsPerMultiProcessor": 39,
    "asyncEngineCount": 40,
    "unifiedAddressing": 41,
    "major": 75,
    "minor": 76,
    "managedMemory": 83,
    "pageableMemoryAccess": 88,
    "concurrentManagedAccess": 89,
}


def getDeviceProperties(device: int) -> SimpleNamespace:
    """What a device has: an object with attributes of the names of ``cudaDeviceProp``."""
    properties = SimpleNamespace(
        name=_checked(_rmm._device_name(device)).encode(),
        totalGlobalMem=_checked(_rmm._device_memory(device)),
    )
    for name, attribute in _PROPERTIES.items():
        status, value = _rmm._device_attribute(attribute, device)
        # A driver need not know all of them.
        setattr(properties, name, 0 if status else value)
    return properties


def deviceGetName(device: int) -> str:
    """The name of a device.

    Raises
    ------
    CUDADriverError
        If there is no such device.
    """
    status, name = _rmm._device_name(device)
    if status:
        raise CUDADriverError(status)
    return name
