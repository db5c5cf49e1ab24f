"""What torch_memory_saver 0.0.10 has, by the names and signatures of its wheel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def configure_subprocess() -> Any:
    """Sets LD_PRELOAD."""
    raise AssertionError("it is not needed")


class TorchMemorySaver:
    """Calls its implementation, which it makes at the first use."""

    def __init__(self) -> None:
        self._impl: Any = None

    @contextmanager
    def region(
        self,
        tag: str = "default",
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """Memory of a tag."""
        with self._ready().region(
            tag=tag,
            enable_cpu_backup=enable_cpu_backup,
            enable_disk_backup=enable_disk_backup,
            cpu_backup_backend=cpu_backup_backend,
        ):
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
        """A capture."""
        with self._ready().cuda_graph(
            cuda_graph=cuda_graph,
            pool=pool,
            stream=stream,
            capture_error_mode=capture_error_mode,
            tag=tag,
            enable_cpu_backup=enable_cpu_backup,
            cpu_backup_backend=cpu_backup_backend,
        ):
            yield

    @contextmanager
    def disable(self) -> Iterator[None]:
        """Memory without a tag."""
        with self._ready().disable():
            yield

    def pause(self, tag: str | None = None) -> None:
        """Releases memory."""
        self._ready().pause(tag=tag)

    def resume(self, tag: str | None = None) -> None:
        """Maps it again."""
        self._ready().resume(tag=tag)

    def get_cpu_backup(self, x: Any, zero_copy: bool = False) -> Any:
        """The backup of a tensor."""
        return self._ready().get_cpu_backup(x, zero_copy=zero_copy)

    @property
    def memory_margin_bytes(self) -> int:
        """Is only set."""
        raise NotImplementedError

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, value: int) -> None:
        self._ready()._binary_wrapper.cdll.set_memory_margin_bytes(value)

    def _ready(self) -> Any:
        assert self._impl is not None, "its own library is not there"
        return self._impl


torch_memory_saver = TorchMemorySaver()
