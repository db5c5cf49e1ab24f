"""The part of NVML's Python package that Dask asks for, for the devices of the software driver.

On a path before the real one, where no GPU is.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

NVML_DEVICE_MIG_ENABLE = 1
NVML_DEVICE_MIG_DISABLE = 0


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801
    pass


class NVMLError_NotFound(NVMLError):  # noqa: N801
    pass


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801
    pass


class NVMLError_DriverNotLoaded(NVMLError):  # noqa: N801
    pass


class NVMLError_Unknown(NVMLError):  # noqa: N801
    pass


class NVMLError_NoPermission(NVMLError):  # noqa: N801
    pass


def nvmlInit() -> None:  # noqa: N802
    pass


def nvmlSystemGetDriverVersion() -> str:  # noqa: N802
    return "580.0"


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return int(os.environ.get("RMM_SIM_DEVICES", "1"))


def nvmlDeviceGetHandleByIndex(index: Any) -> int:  # noqa: N802
    if not 0 <= int(index) < nvmlDeviceGetCount():
        raise NVMLError_NotFound
    return int(index)


def nvmlDeviceGetHandleByUUID(uuid: Any) -> int:  # noqa: N802
    return nvmlDeviceGetHandleByIndex(int(str(uuid).strip("b'").rpartition("-")[2]))


def nvmlDeviceGetIndex(handle: int) -> int:  # noqa: N802
    return handle


def nvmlDeviceGetUUID(handle: int) -> str:  # noqa: N802
    return f"GPU-00000000-0000-0000-0000-{handle:012}"


def nvmlDeviceGetName(handle: int) -> str:  # noqa: N802
    return "software device"


def nvmlDeviceIsMigDeviceHandle(handle: int) -> bool:  # noqa: N802
    return False


def nvmlDeviceGetMigMode(handle: int) -> tuple[int, int]:  # noqa: N802
    raise NVMLError_NotSupported


def nvmlDeviceGetCpuAffinity(handle: int, words: int) -> list[int]:  # noqa: N802
    return [(1 << (os.cpu_count() or 1)) - 1] + [0] * (words - 1)


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(total=16 << 30, used=0, free=16 << 30)


def nvmlDeviceGetBAR1MemoryInfo(handle: int) -> SimpleNamespace:  # noqa: N802
    raise NVMLError_NotSupported


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(gpu=0, memory=0)


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[Any]:  # noqa: N802
    return []


nvmlDeviceGetComputeRunningProcesses_v2 = nvmlDeviceGetComputeRunningProcesses
