"""vLLM's own allocator."""

from __future__ import annotations

from typing import Any


class CuMemAllocator:
    """One object, which others may set."""

    instance: Any = None

    @staticmethod
    def get_instance() -> Any:
        """That object."""
        if CuMemAllocator.instance is None:
            CuMemAllocator.instance = CuMemAllocator()
        return CuMemAllocator.instance
