"""What the machine has: GPU, driver, and the packages that take part."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import subprocess
import sys

import rmm
import rmm.mr
import rmm_rs_plugin
from rmm._cuda.gpu import driverGetVersion, getDeviceCount

PACKAGES = (
    "rmm-rs rmm-rs-plugin-cu13 rmm-cu13 librmm-cu13 cuda-bindings numpy cupy-cuda13x torch pytest"
)


def main() -> None:
    print("Python", sys.version.split()[0], sys.executable, platform.platform())
    for name in PACKAGES.split():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            print(name, importlib.metadata.version(name))
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    with contextlib.suppress(OSError):
        print(subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip())
    print("devices", getDeviceCount(), "driver", driverGetVersion())
    (pool,) = rmm_rs_plugin.install("64MiB")
    print(pool.describe())
    print(rmm.DeviceBuffer.to_device(b"what was copied comes back").tobytes())


if __name__ == "__main__":
    main()
