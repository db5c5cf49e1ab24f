"""Where vLLM's worker gets its allocator."""

from __future__ import annotations

from typing import Any


def get_mem_allocator_instance() -> Any:
    """The allocator of tagged memory."""
    from vllm.device_allocator.cumem import CuMemAllocator

    return CuMemAllocator.get_instance()
