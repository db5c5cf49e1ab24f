"""The adapter for torch_memory_saver, by which SGLang and others pause memory.

SGLang calls `register` in each process, by an entry point of `sglang.srt.plugins`. Other programs
call it before they use `torch_memory_saver`.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from rmm_rs_torch._engines import UnservedEngine, check_version, is_wanted, unserved
from rmm_rs_torch._sleeper import GRAPHS, Sleeper

__all__ = ["MODE", "MemorySaver", "register"]

#: The versions that the adapter was compared with.
SERVED = ("0.0.10",)
#: The name of the hook mode, where there are modes to register.
MODE = "rmm-rs"
_PACKAGE = "torch_memory_saver"

_logger = logging.getLogger("rmm_rs_torch")


class MemorySaver:
    """What `torch_memory_saver.TorchMemorySaver` calls."""

    #: It asks before it sets a margin.
    _is_xpu = False

    def __init__(self) -> None:
        self.sleeper = Sleeper()
        # Tags of graphs, whatever their names are.
        self._graph_tags: set[str] = set()

    @contextmanager
    def region(
        self,
        tag: str,
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """What this thread allocates is paused by its tag, with or without a backup. Any kind of
        backup on the host is one in pinned memory."""
        if enable_disk_backup:
            raise NotImplementedError("rmm-rs has no backup on a disk: take enable_cpu_backup")
        with self.sleeper.region(tag, backup=enable_cpu_backup):
            yield

    @contextmanager
    def cuda_graph(
        self,
        cuda_graph: Any,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        tag: str = "default",
        enable_cpu_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """As `torch.cuda.graph`. The memory of all graphs is paused by the tag, and is kept."""
        self._graph_tags.add(tag)
        capture = _torch().cuda.graph(
            cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode
        )
        with capture:
            yield

    @contextmanager
    def disable(self, dispose_mem_pool_after_use: bool = True) -> Iterator[None]:
        """What this thread allocates is not paused, also inside of a region."""
        if not dispose_mem_pool_after_use:
            raise NotImplementedError("memory outside of regions is that of the device's pool")
        with self.sleeper.outside():
            yield

    def pause(self, tag: str | None = None) -> None:
        """Returns the memory of a tag to the device; without a tag, of all."""
        # Each region has said whether it has a backup.
        self.sleeper.sleep(self._named(tag), to_host=False)

    def resume(self, tag: str | None = None) -> None:
        """Maps it again."""
        self.sleeper.wake(self._named(tag))

    def get_cpu_backup(self, x: Any, zero_copy: bool = False) -> Any:
        """A copy of what a tensor holds that is paused with a backup, or None. It is a copy, also
        with `zero_copy`: the backup lies in blocks of 64 MiB."""
        return self.sleeper.read(x)

    @property
    def _binary_wrapper(self) -> Any:
        raise NotImplementedError(
            "margins, and backups that stay, are functions of torch_memory_saver's own library, "
            "which is not used with rmm-rs"
        )

    def _named(self, tag: str | None) -> list[str]:
        tags = self.sleeper.tags()
        chosen = [name for name in tags if tag in (None, name)]
        if self._graph_tags and (tag is None or tag in self._graph_tags):
            chosen.append(GRAPHS[0])
        return chosen


def register() -> None:
    """Makes `torch_memory_saver` pause memory by rmm-rs. Harmless the second time. Nothing where
    rmm-rs is not PyTorch's allocator, or the package is not there.

    Raises
    ------
    UnservedEngine
        If the installed version is none that this adapter serves, or it was used before.
    """
    if not is_wanted():
        return
    try:
        package: Any = importlib.import_module(_PACKAGE)
    except ModuleNotFoundError:
        return
    if hasattr(package, "register_hook_mode"):
        package.register_hook_mode(MODE, MemorySaver, uses_preload=False)
        return
    check_version(_PACKAGE, SERVED)
    saver = getattr(package, _PACKAGE, None)
    if saver is None or not hasattr(saver, "_impl"):
        raise unserved(_PACKAGE, SERVED, f"{_PACKAGE}._impl")
    if isinstance(saver._impl, MemorySaver):
        return
    if saver._impl is not None:
        raise UnservedEngine(
            "torch_memory_saver was used before rmm-rs was registered: call "
            "rmm_rs_torch.register_memory_saver() first"
        )
    saver._impl = MemorySaver()
    # Its library replaces cudaMalloc, which has nothing to do here.
    package.configure_subprocess = nullcontext
    _logger.info("torch_memory_saver %s pauses memory by rmm-rs", SERVED[0])


def _torch() -> Any:
    return importlib.import_module("torch")
