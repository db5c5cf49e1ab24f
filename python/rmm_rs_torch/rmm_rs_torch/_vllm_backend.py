"""vLLM's sleep mode backend `rmm-rs`. Only vLLM imports it."""

from __future__ import annotations

import importlib
from typing import Any

from vllm.device_allocator.sleep_mode_backend import SleepModeBackend

from rmm_rs_torch._vllm import allocator

__all__ = ["RmmRsBackend"]

#: What is kept at every level, and at level 1. Graphs keep theirs.
KEPT = ("runtime",)
KEPT_AT_LEVEL_1 = ("weights", *KEPT)


class RmmRsBackend(SleepModeBackend):  # type: ignore[misc]
    """Sleeps in place: addresses stay, so that graphs and compiled code stay valid."""

    def suspend(self, level: int = 1) -> None:
        """Returns the memory of all tags and graphs. Level 1 keeps the weights."""
        if level not in (1, 2):
            raise ValueError(f"sleep mode has levels 1 and 2, and no level {level}")
        allocator().suspend(KEPT_AT_LEVEL_1 if level == 1 else KEPT, with_graphs=True)
        self._state = "SUSPENDED"

    def resume(self, tags: list[str] | None = None) -> None:
        """Maps the memory of tags again, or of all."""
        self._state = "RESUMING"
        try:
            allocator().wake_up(tags)
        finally:
            self._state = "SUSPENDED" if allocator().is_asleep() else "RUNNING"

    def discard(self, tags: tuple[str, ...]) -> None:
        """Returns the memory of tags, without their contents."""
        allocator().discard(tags)
        self._state = "SUSPENDED"

    @classmethod
    def is_supported(cls) -> bool:
        """Whether PyTorch allocates by rmm-rs, and the device has virtual memory."""
        torch: Any = importlib.import_module("torch")
        if torch.cuda.memory.get_allocator_backend() != "rmm-rs":
            return False
        try:
            importlib.import_module("rmm_rs.mr").VirtualMemoryResource()
        except RuntimeError:
            return False
        return True

    @classmethod
    def preserves_communicators(cls) -> bool:
        """Communicators stay as they are."""
        return True

    @classmethod
    def preserves_compiled_artifacts(cls) -> bool:
        """Compiled code stays as it is."""
        return True

    @classmethod
    def preserves_graphs_with_communicators(cls) -> bool:
        """NCCL may have registered the memory of a graph's pool, and keeps the old pages then."""
        return False

    @classmethod
    def supports_durable_storage(cls) -> bool:
        """Contents are in host memory."""
        return False
