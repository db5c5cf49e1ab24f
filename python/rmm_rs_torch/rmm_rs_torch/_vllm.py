"""The adapter for vLLM: where its tagged memory comes from, and the name of its backend.

vLLM calls `register` in each process, by an entry point of `vllm.general_plugins`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rmm_rs_torch._engines import UnservedEngine, check_version, is_wanted, unserved
from rmm_rs_torch._sleeper import GRAPHS, Sleeper

__all__ = ["BACKEND", "Allocator", "allocator", "register"]

#: The versions that the adapter was compared with.
SERVED = ("0.33",)
#: The name for `--sleep-mode-backend`.
BACKEND = "rmm-rs"
#: The tag of vLLM's memory without a tag.
DEFAULT_TAG = "default"
#: The tags that a wake may leave asleep.
DEFERRABLE = ("weights", "kv_cache")
_PLACE = "vllm.device_allocator"


class Allocator:
    """The memory of vLLM's tags, with the functions of its protocol `MemAllocator`."""

    def __init__(self) -> None:
        self.sleeper = Sleeper()
        self._graph_pool: tuple[int, int] | None = None

    @contextmanager
    def use_memory_pool(self, tag: str | None = None) -> Iterator[None]:
        """What this thread allocates belongs to the tag. At the end, what is free goes back."""
        name = DEFAULT_TAG if tag is None else tag
        with self.sleeper.region(name):
            yield
        # Loading weights may leave more free memory than the weights have.
        self.sleeper.trim(name)

    @contextmanager
    def cudagraph_pool(self) -> Iterator[tuple[int, int]]:
        """The id of the pool for vLLM's graphs."""
        if self._graph_pool is None:
            self._graph_pool = _torch().cuda.graph_pool_handle()
        yield self._graph_pool

    def sleep(self, offload_tags: tuple[str, ...] | str | None = None) -> None:
        """Returns the memory of all tags, and of graphs if `cudagraph_pool` was used. Contents of
        `offload_tags` are kept, and those of graphs."""
        if offload_tags is None:
            offload_tags = (DEFAULT_TAG,)
        self.suspend(_as_tuple(offload_tags), with_graphs=self._graph_pool is not None)

    def suspend(self, kept: tuple[str, ...], with_graphs: bool) -> None:
        """Returns the memory of all tags, with or without graphs."""
        gc.collect()
        tags = self.sleeper.tags()
        names = [*tags, *(GRAPHS[:1] if with_graphs else ())]
        self.sleeper.sleep(names, {tag: tag in kept for tag in names})

    def discard(self, tags: tuple[str, ...] | str) -> None:
        """Returns the memory of tags, without their contents."""
        self.sleeper.discard(self._known(_as_tuple(tags)))

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Maps the memory of tags again. Of the tags that are not named only weights and the cache
        stay asleep."""
        gc.collect()
        if tags is None:
            self.sleeper.wake()
            return
        left = [tag for tag in DEFERRABLE if tag not in tags]
        self.sleeper.wake([*(tag for tag in self.sleeper.tags() if tag not in left), GRAPHS[0]])

    def get_current_usage(self) -> int:
        """Bytes of tensors in all tags."""
        return sum(self.sleeper.usage(tag).live for tag in self.sleeper.tags())

    def release_pools(self) -> None:
        """Forgets all tags: at the end of a worker."""
        self.sleeper.release()
        self._graph_pool = None

    #: Another name of it in vLLM.
    close = release_pools

    def is_asleep(self) -> bool:
        """Whether the memory of any tag sleeps."""
        return any(self.sleeper.is_asleep(tag) for tag in (*self.sleeper.tags(), GRAPHS[0]))

    def _known(self, tags: tuple[str, ...]) -> list[str]:
        # vLLM names tags that a model may not have.
        return [tag for tag in tags if tag in self.sleeper.tags()]


_the_one: list[Allocator] = []


def allocator() -> Allocator:
    """The allocator of this process."""
    if not _the_one:
        _the_one.append(Allocator())
    return _the_one[0]


def register() -> None:
    """Makes the backend known to vLLM, and serves its memory pools. Harmless the second time.
    Nothing where rmm-rs is not PyTorch's allocator.

    Raises
    ------
    UnservedEngine
        If the installed vLLM is none that this adapter serves.
    """
    if not is_wanted():
        return
    check_version("vllm", SERVED)
    try:
        factory = importlib.import_module(f"{_PLACE}.sleep_mode_backend").SleepModeBackendFactory
        register_backend = factory.register_backend
        cumem = importlib.import_module(f"{_PLACE}.cumem").CuMemAllocator
        present = cumem.instance
    except (ImportError, AttributeError) as error:
        raise unserved("vllm", SERVED, str(error)) from error
    if present is not None and not isinstance(present, Allocator):
        raise UnservedEngine(
            "vLLM has made its own sleep mode allocator before rmm-rs was registered: load the "
            "plug-ins of vllm.general_plugins first"
        )
    cumem.instance = allocator()
    # A ValueError says that the name is taken: by an earlier call.
    with contextlib.suppress(ValueError):
        register_backend(BACKEND, "rmm_rs_torch._vllm_backend", "RmmRsBackend")


def _as_tuple(tags: tuple[str, ...] | str) -> tuple[str, ...]:
    return (tags,) if isinstance(tags, str) else tuple(tags)


def _torch() -> Any:
    return importlib.import_module("torch")
