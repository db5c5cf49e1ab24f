"""What the adapters for inference engines share."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from typing import Any

__all__ = ["UnservedEngine", "check_version", "is_wanted", "unserved"]


class UnservedEngine(ImportError):
    """The installed engine is none that there is an adapter for."""


def is_wanted() -> bool:
    """Whether rmm-rs is PyTorch's allocator in this process, or is to be."""
    if os.environ.get("RMM_RS_TORCH", "") not in ("", "0"):
        return True
    torch: Any = importlib.import_module("torch")
    return bool(torch.cuda.memory.get_allocator_backend() == "rmm-rs")


def check_version(package: str, served: tuple[str, ...]) -> None:
    """Raises if the installed version is none of those that are served, which are beginnings of
    versions.

    Raises
    ------
    UnservedEngine
        With the versions that are served.
    """
    version = _version(package)
    if not any(version == name or version.startswith(f"{name}.") for name in served):
        raise unserved(package, served)


def unserved(package: str, served: tuple[str, ...], missing: str = "") -> UnservedEngine:
    """The error for a version that is not served, or in which something is missing."""
    why = f", in which something is missing ({missing})" if missing else ""
    return UnservedEngine(
        f"{package} {_version(package)}{why} is installed, and this rmm-rs-torch serves "
        f"{package} {', '.join(served)}: install one of these, or a newer rmm-rs-torch, or unset "
        "RMM_RS_TORCH"
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"
