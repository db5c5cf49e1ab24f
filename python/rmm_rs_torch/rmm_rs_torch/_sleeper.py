"""Memory of PyTorch that sleeps by tag."""

from __future__ import annotations

import importlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from rmm_rs_torch._check import load

__all__ = ["DEFAULT_POOL", "GRAPHS", "Sleeper", "Usage"]

#: The tags of all private pools of CUDA graphs: vLLM's and SGLang's.
GRAPHS = ("cudagraph", "cuda_graph")
#: The tag of what is allocated outside of regions and graphs, on the current device. It sleeps only
#: if it is named; a `wake` of it or of all tags wakes that of each device.
DEFAULT_POOL = "default pool"

#: A pool by its device and its id.
_Pool = tuple[int, tuple[int, int]]
#: The id of a device's default pool.
_DEFAULT = (0, 0)


class Usage(NamedTuple):
    """Bytes of a tag."""

    #: Of tensors.
    live: int
    #: Of the device's memory.
    reserved: int
    #: Of addresses whose memory the device has back.
    asleep: int


class Sleeper:
    """Returns the memory of tags to the device, and maps it again at the same addresses.

    A tag is a pool over virtual memory: what a thread allocates in a `region` of the tag comes from
    it. CUDA graphs that use the memory are replayed after `wake` without a new capture. From
    `sleep` until `wake` no kernel, copy or replay may use the memory. At the end of this object its
    tags end, as by `release`.

    Parameters
    ----------
    host_memory
        A resource for the contents that are kept, in blocks of 64 MiB, such as a pool over
        `RegisteredHostMemoryResource`. By default they are pinned at each `sleep`, which takes
        422 ms for each GiB.
    """

    def __init__(self, host_memory: Any = None) -> None:
        self._host_memory = host_memory
        # By tag, and by device and `backup` of the regions.
        self._tags: dict[str, dict[tuple[int, bool | None], tuple[int, int]]] = {}
        # Whether contents were kept, of pools that this object has put to sleep.
        self._kept: dict[_Pool, bool] = {}
        self._lock = threading.RLock()
        self._loaded: Any = None
        self._end: weakref.finalize[..., Sleeper] | None = None

    @contextmanager
    def region(self, tag: str, backup: bool | None = None) -> Iterator[None]:
        """A context manager: what this thread allocates on the current device belongs to the tag.

        Regions nest, and several threads may be in regions of one tag. A capture that begins inside
        allocates from its graph's pool.

        Parameters
        ----------
        tag
            Any name but that of the default pool.
        backup
            Whether `sleep` keeps the contents, whatever it is told: for memory whose user knows
            better than the caller of `sleep`. None: `sleep` says it.

        Raises
        ------
        RuntimeError
            If rmm-rs is not PyTorch's allocator, or its memory is not virtual.
        """
        if tag == DEFAULT_POOL:
            raise ValueError(f"{tag!r} is what is allocated outside of regions")
        module = self._module()
        device = _torch().cuda.current_device()
        with self._lock:
            pools = self._tags.get(tag, {})
            pool = pools.get((device, backup))
            if pool is None:
                pool = module.make_tag(device)
                self._tags.setdefault(tag, {})[device, backup] = pool
                if self._end is None:
                    self._end = weakref.finalize(self, _release, module, self._tags)
                    # Tensors may be used until the process has ended.
                    self._end.atexit = False
        with _route(module, device, pool):
            yield

    @contextmanager
    def outside(self) -> Iterator[None]:
        """A context manager: what this thread allocates on the current device belongs to no tag,
        also inside of a region."""
        with _route(self._module(), _torch().cuda.current_device(), _DEFAULT):
            yield

    def sleep(
        self, tags: str | Iterable[str] | None = None, to_host: bool | Mapping[str, bool] = True
    ) -> int:
        """Waits for the device, and returns the memory of tags to it. Returns the bytes.

        Parameters
        ----------
        tags
            Names of tags; `GRAPHS` are names of all private pools of CUDA graphs. None: all tags,
            and those of graphs, but not the default pool.
        to_host
            Whether contents are copied to host memory; by tag, where the tags that are not named
            keep theirs. Without it, tensors hold undefined bytes afterwards. Graphs keep theirs in
            any case.

        Raises
        ------
        RuntimeError
            While a region or a capture allocates from the memory, or any stream is captured; if
            other processes may map the memory, or it is not virtual. Then all tags are awake that
            were.
        """
        module = self._module()
        with self._lock:
            chosen = self._chosen(tags)
            wanted = {
                pool: _is_kept(tag, backup, to_host)
                for tag in chosen
                for backup, pool in self._pools_of(tag)
            }
            for pool in wanted:
                module.check_may_sleep(*pool)
            awake = self._awake(wanted)
            # Graphs that are gone, and what their tensors leave.
            _torch().cuda.empty_cache()
            # What is lost is lost last: until then all can be undone.
            awake.sort(key=lambda pool: not wanted[pool])
            done: list[_Pool] = []
            total = 0
            try:
                for pool in awake:
                    total += module.sleep(*pool, wanted[pool], self._host_memory)
                    done.append(pool)
                    self._kept[pool] = wanted[pool]
            except BaseException as error:
                # What was discarded sleeps on: it has nothing to come back to.
                kept = [pool for pool in done if wanted[pool]]
                _undo(error, kept, lambda pool: module.wake(*pool))
                for pool in kept:
                    self._kept.pop(pool, None)
                raise
            return total

    def discard(self, tags: str | Iterable[str]) -> int:
        """Returns the memory of tags to the device without a copy: tensors hold undefined bytes
        after `wake`. Returns the bytes.

        Raises
        ------
        ValueError
            For graphs, which need theirs, and for regions with a backup.
        RuntimeError
            As `sleep`.
        """
        with self._lock:
            names = self._chosen(tags)
            for tag in names:
                backups = [backup for backup, _ in self._pools_of(tag)]
                if tag in GRAPHS or any(backups):
                    raise ValueError(f"the contents of {tag!r} are kept in any case: call sleep")
            return self.sleep(names, to_host=False)

    def wake(self, tags: str | Iterable[str] | None = None) -> int:
        """Maps memory at the addresses of tags, and copies back what was kept. Returns the bytes.

        Parameters
        ----------
        tags
            Names of tags; None: all that sleep.

        Raises
        ------
        torch.OutOfMemoryError
            If there is too little memory. Then all of these tags sleep as before, and this can be
            called again.
        """
        module = self._module()
        with self._lock:
            chosen = (*self._all(), DEFAULT_POOL) if tags is None else self._chosen(tags)
            pools = dict.fromkeys(pool for tag in chosen for _, pool in self._pools_of(tag))
            if DEFAULT_POOL in chosen:
                # Also of devices that are not current.
                pools.update(dict.fromkeys(pool for pool in self._kept if pool[1] == _DEFAULT))
            asleep = [pool for pool in pools if module.is_asleep(*pool)]
            done: list[_Pool] = []
            total = 0
            try:
                for pool in asleep:
                    total += module.wake(*pool)
                    done.append(pool)
            except BaseException as error:
                policy, host = self._kept, self._host_memory
                _undo(error, done, lambda pool: module.sleep(*pool, policy.get(pool, True), host))
                raise
            for pool in pools:
                self._kept.pop(pool, None)
            return total

    def is_asleep(self, tag: str) -> bool:
        """Whether memory of the tag sleeps."""
        module = self._module()
        return any(module.is_asleep(*pool) for _, pool in self._pools_of(self._known(tag)))

    def usage(self, tag: str | None = None) -> Usage:
        """The bytes of a tag; None: of all tags together, without the default pool."""
        module = self._module()
        with self._lock:
            tags = self._all() if tag is None else [self._known(tag)]
            pools = {pool for name in tags for _, pool in self._pools_of(name)}
        figures = [Usage(*module.usage(*pool)) for pool in pools]
        return Usage(
            sum(usage.live for usage in figures),
            sum(usage.reserved for usage in figures),
            sum(usage.asleep for usage in figures),
        )

    def tags(self) -> list[str]:
        """The tags that had a region, in their order."""
        with self._lock:
            return list(self._tags)

    def trim(self, tag: str) -> None:
        """Returns what a tag does not use to the device, after a wait for its work."""
        module = self._module()
        if tag not in GRAPHS:
            for _, pool in self._pools_of(self._known(tag)):
                module.trim(*pool)

    def release(self, tags: str | Iterable[str] | None = None) -> None:
        """Forgets tags: their memory returns to the device once their tensors are gone, by the next
        `torch.cuda.empty_cache`. What sleeps cannot be woken any more."""
        module = self._module()
        with self._lock:
            for tag in list(self._tags) if tags is None else self._chosen(tags):
                for (device, _), pool in self._tags.pop(tag, {}).items():
                    module.release_pool(device, pool)
                    self._kept.pop((device, pool), None)

    def read(self, tensor: Any) -> Any:
        """A copy on the CPU of what a contiguous tensor holds, whose memory sleeps and was kept.
        None if it is awake or was not kept."""
        if not tensor.is_contiguous():
            raise ValueError("the tensor is not contiguous")
        out = _torch().empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        if tensor.nbytes == 0:
            return out
        block = tensor.untyped_storage().data_ptr()
        places = (block, tensor.data_ptr(), tensor.nbytes, out.data_ptr())
        return out if self._module().read_asleep(*places) else None

    def _module(self) -> Any:
        """The compiled module, once it is PyTorch's allocator."""
        if self._loaded is None:
            torch = _torch()
            if torch.cuda.memory.get_allocator_backend() != "rmm-rs":
                raise RuntimeError(
                    "memory sleeps by tag only with rmm-rs as PyTorch's allocator: call "
                    'rmm_rs.torch.install("pool") before the first use of CUDA, or set '
                    "RMM_RS_TORCH=pool"
                )
            self._loaded = load(torch.__version__)
        return self._loaded

    def _all(self) -> list[str]:
        return [*(tag for tag in self._tags if tag not in GRAPHS), GRAPHS[0]]

    def _chosen(self, tags: str | Iterable[str] | None) -> list[str]:
        if tags is None:
            return self._all()
        return [self._known(tag) for tag in ([tags] if isinstance(tags, str) else tags)]

    def _known(self, tag: str) -> str:
        if tag in self._tags or tag in GRAPHS or tag == DEFAULT_POOL:
            return tag
        known = ", ".join(map(repr, list(self._tags))) or "none"
        raise ValueError(f"there was no region of {tag!r}; tags with regions: {known}")

    def _pools_of(self, tag: str) -> list[tuple[bool | None, _Pool]]:
        """The pools of a tag, each with the `backup` of its regions."""
        if tag == DEFAULT_POOL:
            return [(None, (_torch().cuda.current_device(), _DEFAULT))]
        names = GRAPHS if tag in GRAPHS else (tag,)
        pools = [
            (backup, (device, pool))
            for name in names
            # A copy: another thread may begin the first region of a device meanwhile.
            for (device, backup), pool in list(self._tags.get(name, {}).items())
        ]
        if tag in GRAPHS:
            pools += [(None, (device, pool)) for device, pool in self._module().graph_pools()]
        return pools

    def _awake(self, wanted: dict[_Pool, bool]) -> list[_Pool]:
        """The pools that do not sleep. Warns of those that do with another policy."""
        module, awake = self._module(), []
        is_other = False
        for pool, is_kept in wanted.items():
            if not module.is_asleep(*pool):
                awake.append(pool)
            elif self._kept.get(pool, is_kept) != is_kept:
                is_other = True
        if is_other:
            warnings.warn(
                "memory that sleeps keeps the policy of its first sleep: what was kept stays kept, "
                "and what was discarded is lost",
                RuntimeWarning,
                stacklevel=3,
            )
        return awake


def _release(module: Any, tags: dict[str, dict[tuple[int, bool | None], tuple[int, int]]]) -> None:
    """Ends the use of all tags' pools."""
    for pools in tags.values():
        for (device, _), pool in pools.items():
            module.release_pool(device, pool)


def _torch() -> Any:
    # The package has no dependency on PyTorch.
    return importlib.import_module("torch")


@contextmanager
def _route(module: Any, device: int, pool: tuple[int, int]) -> Iterator[None]:
    region = module.begin_region(device, pool)
    try:
        yield
    finally:
        module.end_region(device, region)


def _undo(error: BaseException, pools: list[_Pool], step: Callable[[_Pool], object]) -> None:
    """Undoes what was done before an error, to which it adds what could not be undone."""
    for pool in pools:
        try:
            step(pool)
        except RuntimeError as other:
            error.add_note(f"and a pool of the same call, {pool}, could not be put back: {other}")


def _is_kept(tag: str, backup: bool | None, to_host: bool | Mapping[str, bool]) -> bool:
    if tag in GRAPHS:
        return True
    if backup is not None:
        return backup
    return to_host.get(tag, True) if isinstance(to_host, Mapping) else to_host
