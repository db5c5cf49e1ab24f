"""vLLM's backends by name."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any


class SleepModeBackend(ABC):
    """The base class."""

    def __init__(self) -> None:
        self._state = "RUNNING"

    @abstractmethod
    def suspend(self, level: int = 1) -> None:
        """Falls asleep."""

    @abstractmethod
    def resume(self, tags: list[str] | None = None) -> None:
        """Wakes up."""

    def state(self) -> str:
        """The state."""
        return self._state

    def discard(self, tags: tuple[str, ...]) -> None:
        """Discards tags."""
        raise RuntimeError("not supported")

    @classmethod
    def is_supported(cls) -> bool:
        """Whether it works here."""
        return True


class CuMemBackend(SleepModeBackend):
    """vLLM's own backend, over its allocator."""

    def suspend(self, level: int = 1) -> None:
        """Falls asleep."""
        kept = ("runtime", "cudagraph")
        _allocator().sleep(offload_tags=("weights", *kept) if level == 1 else kept)

    def resume(self, tags: list[str] | None = None) -> None:
        """Wakes up."""
        _allocator().wake_up(tags)


class SleepModeBackendFactory:
    """The registry."""

    _registry: dict[str, tuple[str, str]] = {}

    @classmethod
    def register_backend(cls, name: str, module_path: str, class_name: str) -> None:
        """Adds a name, once."""
        if name in cls._registry:
            raise ValueError(f"{name} is there")
        cls._registry[name] = (module_path, class_name)

    @classmethod
    def create_backend(cls, name: str) -> Any:
        """Makes the backend of a name."""
        module, kind = cls._registry[name]
        backend = getattr(importlib.import_module(module), kind)
        assert backend.is_supported()
        return backend()


def _allocator() -> Any:
    from vllm.device_allocator import get_mem_allocator_instance

    return get_mem_allocator_instance()


SleepModeBackendFactory.register_backend("cumem", __name__, "CuMemBackend")
