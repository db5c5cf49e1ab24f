"""The software driver of this repository, for tests and for the stress."""

from __future__ import annotations

import os
from pathlib import Path


def use() -> bool:
    """Has the process use it, before the extension module asks for a driver, unless
    `RMM_CUDA_LIBRARY` or `RMM_DRIVER` says otherwise. Returns whether it does."""
    if "RMM_CUDA_LIBRARY" in os.environ:
        return "rmm_sim_driver" in os.environ["RMM_CUDA_LIBRARY"]
    if os.environ.get("RMM_DRIVER") == "cuda":
        return False
    root = Path(__file__).resolve().parents[3]
    driver = root / "target" / "debug" / "librmm_sim_driver.so"
    if not driver.exists():
        raise RuntimeError(f"{driver} is missing: cargo build -p rmm-sim-driver")
    os.environ["RMM_CUDA_LIBRARY"] = str(driver)
    os.environ.setdefault("RMM_SIM_DEVICES", "2")
    return True
