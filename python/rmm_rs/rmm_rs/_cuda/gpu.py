"""Devices, and the errors of CUDA."""

from __future__ import annotations

import ctypes
import importlib
import os
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
    """The version of the CUDA runtime that the process has: of ``cuda.bindings``, where that is
    installed, or of a ``libcudart`` that is loaded. Without one it is the driver's: this package
    uses none.
    """
    try:
        bindings = importlib.import_module("cuda.bindings.runtime")
        status, version = bindings.getLocalRuntimeVersion()
        if int(status) == 0:
            return int(version)
    except Exception:  # not there, of a former version, or without the runtime's library
        pass
    for major in (13, 12):
        try:
            library = ctypes.CDLL(f"libcudart.so.{major}", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            loaded = ctypes.c_int()
            if library.cudaRuntimeGetVersion(ctypes.byref(loaded)) == 0:
                return loaded.value
        except (OSError, AttributeError):
            continue
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


# Names of `cudaDeviceProp`, and the numbers of their attributes: several for an array.
_PROPERTIES: dict[str, tuple[int, ...]] = {
    "maxThreadsPerBlock": (1,),
    "maxThreadsDim": (2, 3, 4),
    "maxGridSize": (5, 6, 7),
    "sharedMemPerBlock": (8,),
    "totalConstMem": (9,),
    "warpSize": (10,),
    "memPitch": (11,),
    "regsPerBlock": (12,),
    "clockRate": (13,),
    "textureAlignment": (14,),
    "deviceOverlap": (15,),
    "multiProcessorCount": (16,),
    "kernelExecTimeoutEnabled": (17,),
    "integrated": (18,),
    "canMapHostMemory": (19,),
    "computeMode": (20,),
    "maxTexture1D": (21,),
    "maxTexture2D": (22, 23),
    "maxTexture3D": (24, 25, 26),
    "maxTexture2DLayered": (27, 28, 29),
    "surfaceAlignment": (30,),
    "concurrentKernels": (31,),
    "ECCEnabled": (32,),
    "pciBusID": (33,),
    "pciDeviceID": (34,),
    "tccDriver": (35,),
    "memoryClockRate": (36,),
    "memoryBusWidth": (37,),
    "l2CacheSize": (38,),
    "maxThreadsPerMultiProcessor": (39,),
    "asyncEngineCount": (40,),
    "unifiedAddressing": (41,),
    "maxTexture1DLayered": (42, 43),
    "maxTexture2DGather": (45, 46),
    "maxTexture3DAlt": (47, 48, 49),
    "pciDomainID": (50,),
    "texturePitchAlignment": (51,),
    "maxTextureCubemap": (52,),
    "maxTextureCubemapLayered": (53, 54),
    "maxSurface1D": (55,),
    "maxSurface2D": (56, 57),
    "maxSurface3D": (58, 59, 60),
    "maxSurface1DLayered": (61, 62),
    "maxSurface2DLayered": (63, 64, 65),
    "maxSurfaceCubemap": (66,),
    "maxSurfaceCubemapLayered": (67, 68),
    "maxTexture1DLinear": (69,),
    "maxTexture2DLinear": (70, 71, 72),
    "maxTexture2DMipmap": (73, 74),
    "major": (75,),
    "minor": (76,),
    "maxTexture1DMipmap": (77,),
    "streamPrioritiesSupported": (78,),
    "globalL1CacheSupported": (79,),
    "localL1CacheSupported": (80,),
    "sharedMemPerMultiprocessor": (81,),
    "regsPerMultiprocessor": (82,),
    "managedMemory": (83,),
    "isMultiGpuBoard": (84,),
    "multiGpuBoardGroupID": (85,),
    "hostNativeAtomicSupported": (86,),
    "singleToDoublePrecisionPerfRatio": (87,),
    "pageableMemoryAccess": (88,),
    "concurrentManagedAccess": (89,),
    "computePreemptionSupported": (90,),
    "canUseHostPointerForRegisteredMem": (91,),
    "cooperativeLaunch": (95,),
    "cooperativeMultiDeviceLaunch": (96,),
    "sharedMemPerBlockOptin": (97,),
    "hostRegisterSupported": (99,),
    "pageableMemoryAccessUsesHostPageTables": (100,),
    "directManagedMemAccessFromHost": (101,),
    "maxBlocksPerMultiProcessor": (106,),
    "persistingL2CacheMaxSize": (108,),
    "accessPolicyMaxWindowSize": (109,),
    "reservedSharedMemPerBlock": (111,),
    "sparseCudaArraySupported": (112,),
    "hostRegisterReadOnlySupported": (113,),
    "timelineSemaphoreInteropSupported": (114,),
    "memoryPoolsSupported": (115,),
    "gpuDirectRDMASupported": (116,),
    "gpuDirectRDMAFlushWritesOptions": (117,),
    "gpuDirectRDMAWritesOrdering": (118,),
    "memoryPoolSupportedHandleTypes": (119,),
    "clusterLaunch": (120,),
    "deferredMappingCudaArraySupported": (121,),
    "ipcEventSupported": (125,),
    "unifiedFunctionPointers": (129,),
    "deviceNumaConfig": (130,),
    "deviceNumaId": (131,),
    "mpsEnabled": (133,),
    "hostNumaId": (134,),
    "gpuPciDeviceID": (139,),
    "gpuPciSubsystemID": (140,),
    "hostNumaMultinodeIpcSupported": (143,),
}


def getDeviceProperties(device: int) -> SimpleNamespace:
    """What a device has: an object with all attributes of ``cudaDeviceProp`` of CUDA 12 and 13.

    What the driver does not know is 0.
    """
    properties = SimpleNamespace(
        name=_checked(_rmm._device_name(device)).encode(),
        uuid=SimpleNamespace(bytes=_checked(_rmm._device_uuid(device))),
        luid=bytes(8),  # of Windows
        luidDeviceNodeMask=0,
        totalGlobalMem=_checked(_rmm._device_memory(device)),
    )
    for name, attributes in _PROPERTIES.items():
        outcomes = [_rmm._device_attribute(attribute, device) for attribute in attributes]
        # A driver need not know all of them.
        values = [0 if status else value for status, value in outcomes]
        setattr(properties, name, values if len(values) > 1 else values[0])
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
