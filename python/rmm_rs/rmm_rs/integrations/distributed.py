"""What Dask and Distributed have for RMM's `DeviceBuffer`, for that of this package.

Both look for functions by the name of the package that a class is of, which is `rmm_rs` here.
`rmm_rs.as_rmm` calls `watch`, so a program under the alias needs nothing of this module.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_PROTOCOL = "distributed.protocol"
_DISPATCHES = ("cuda_serialize", "cuda_deserialize", "dask_serialize", "dask_deserialize")


def register() -> None:
    """Tells Distributed how a buffer travels, and Dask how large it is.

    Distributed's functions need Numba. Without it, a buffer is pickled, which copies it once more
    on the host.

    Raises
    ------
    ModuleNotFoundError
        Without Distributed.
    """
    protocol = importlib.import_module(_PROTOCOL)
    sizeof = importlib.import_module("dask.sizeof").sizeof

    def import_functions() -> None:
        # It registers them for `rmm.DeviceBuffer`, the same class. Numba may be missing, or lack a
        # library.
        with contextlib.suppress(ImportError, RuntimeError):
            importlib.import_module("distributed.protocol.rmm")

    def register_size() -> None:
        from rmm_rs import DeviceBuffer

        sizeof.register(DeviceBuffer, lambda buffer: int(buffer.nbytes))

    # At the first buffer, since Numba takes a second to import.
    for name in _DISPATCHES:
        getattr(protocol, name).register_lazy("rmm_rs", import_functions)
    sizeof.register_lazy("rmm_rs", register_size)


def watch() -> None:
    """Calls `register` as soon as Distributed is imported.

    Without effect from the second call on.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if _PROTOCOL in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Waits for the import of Distributed's protocol, once."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != _PROTOCOL:
            return None
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            spec.loader = _RegisterAfter(loader)
        return spec


class _RegisterAfter(Loader):
    """Loads a module as its own loader does, and calls `register` then."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        register()
