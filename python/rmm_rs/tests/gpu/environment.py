"""What the machine has: Python, GPU, driver, and the packages that the other steps use."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import subprocess
import sys

PACKAGES = (
    "rmm-rs rmm-cu13 librmm-cu13 numpy cupy-cuda13x torch numba numba-cuda cuda-bindings cuda-core "
    "cuda-pathfinder nvidia-cuda-runtime nvidia-ml-py dask distributed dask-cuda pandas msgpack "
    "pytest"
)


def main() -> None:
    print("Python", sys.version.split()[0], sys.executable, platform.platform())
    for name in PACKAGES.split():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            print(name, importlib.metadata.version(name))
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    with contextlib.suppress(OSError):
        print(subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip())
    import rmm_rs
    from rmm_rs._cuda import gpu

    print("rmm_rs from", rmm_rs.__file__)
    print("devices", gpu.getDeviceCount(), "driver", gpu.driverGetVersion())
    print("memory", rmm_rs.mr.available_device_memory())
    print(rmm_rs.DeviceBuffer.to_device(b"abc").tobytes())


if __name__ == "__main__":
    main()
