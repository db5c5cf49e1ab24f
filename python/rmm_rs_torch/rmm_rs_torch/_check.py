"""Which PyTorch the package has a module for."""

from __future__ import annotations

import importlib
import re
from types import ModuleType

from rmm_rs_torch._built_for import TORCH_VERSIONS

__all__ = ["TORCH_VERSIONS", "UnservedVersion", "load"]


class UnservedVersion(ImportError):
    """The installed PyTorch is none that the package has a module for."""


def load(version: str) -> ModuleType:
    """The module for a version of PyTorch, such as ``2.14.1+cu130``.

    A module for another version would load, and call the wrong functions: the class has no version
    of its own.

    Raises
    ------
    UnservedVersion
        If there is none.
    """
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+(\+.*)?", version)
    release = f"{match[1]}.{match[2]}" if match else None
    if release is None or release not in TORCH_VERSIONS:
        kind = "" if match else ", which is no release"
        raise UnservedVersion(
            f"PyTorch {version}{kind} is installed, and this rmm-rs-torch has modules for "
            f"{', '.join(TORCH_VERSIONS)}: `pip install --upgrade rmm-rs-torch` brings those for "
            'newer releases, install(fallback="pluggable") does with fewer abilities, and '
            "python/rmm_rs_torch of rmm-rs's repository compiles a module for the PyTorch that is "
            "there"
        )
    module = importlib.import_module(f"rmm_rs_torch._torch_{release.replace('.', '_')}")
    if release != module.TORCH_VERSION:
        raise UnservedVersion(f"{module.__file__} was built for PyTorch {module.TORCH_VERSION}")
    return module
