"""What each resource class does, and which one is current."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmm_rs
from rmm_rs import DeviceBuffer, mr
from rmm_rs.pylibrmm.memory_resource._memory_resource import _append_id

Trim = Callable[[Callable[[], int]], int]


def test_virtual_memory_of_the_host_is_for_both() -> None:
    try:
        pool = mr.PoolMemoryResource(mr.HostVirtualMemoryResource(), 0)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert pool.is_host_accessible and pool.is_device_accessible
    contents = bytes(range(256)) * 20000
    mr.set_current_device_resource(pool)
    buffer = rmm_rs.DeviceBuffer.to_device(contents)
    rmm_rs.pylibrmm.stream.DEFAULT_STREAM.synchronize()
    assert ctypes.string_at(buffer.ptr, buffer.size) == contents
    mr.set_current_device_resource(mr.HostVirtualMemoryResource(0, export="posix_fd"))
    with rmm_rs.import_memory(rmm_rs.export(DeviceBuffer.to_device(contents))) as memory:
        assert ctypes.string_at(memory.ptr, memory.size) == contents
    for wrong in ({"numa_node": "any"}, {"numa_node": -1}, {"export": "file"}):
        with pytest.raises(ValueError, match="NUMA node|posix_fd"):
            mr.HostVirtualMemoryResource(**wrong)


def test_the_current_resource_is_the_object_that_was_set() -> None:
    first = mr.get_current_device_resource()
    assert type(first) is mr.CudaMemoryResource
    assert mr.get_current_device_resource() is first
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    set_resource: Callable[..., object] = mr.set_current_device_resource
    assert set_resource(pool) is None
    assert mr.get_current_device_resource() is pool
    assert mr.get_per_device_resource(0) is pool
    other = mr.get_per_device_resource(1)
    assert other is not pool and mr.get_per_device_resource(1) is other
    assert mr.is_initialized()


@pytest.mark.usefixtures("two_devices")
def test_each_device_has_a_resource() -> None:
    from rmm_rs._cuda.gpu import getDevice, setDevice

    resources = [mr.CudaMemoryResource(), mr.CudaMemoryResource()]
    for device, resource in enumerate(resources):
        mr.set_per_device_resource(device, resource)
    try:
        for device, resource in enumerate(resources):
            setDevice(device)
            assert getDevice() == device
            assert mr.get_current_device_resource() is resource
    finally:
        setDevice(0)


def test_an_adaptor_has_the_object_that_was_given() -> None:
    base = mr.CudaMemoryResource()
    pool = mr.PoolMemoryResource(base, "1MiB")
    top = mr.StatisticsResourceAdaptor(upstream_mr=pool)
    assert top.upstream_mr is pool and top.get_upstream() is pool
    assert pool.upstream_mr is base
    with pytest.raises(AttributeError):
        top.upstream_mr = base  # type: ignore[misc]


def test_a_pool_knows_its_size(trimmed: Trim) -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB", "2MiB")
    assert pool.pool_size() == 1 << 20
    address = pool.allocate(1 << 20)
    assert pool.statistics()["live_bytes"] == 1 << 20
    with pytest.raises(MemoryError):
        pool.allocate(2 << 20)
    pool.deallocate(address, 1 << 20)
    assert trimmed(pool.trim) == pool.statistics()["peak_reserved_bytes"]
    assert pool.pool_size() == 0
    free, total = mr.available_device_memory()
    half = mr.PoolMemoryResource(mr.CudaMemoryResource())
    assert half.pool_size() == free // 2 - free // 2 % 256 and free <= total
    assert mr.PoolMemoryResource(mr.CudaMemoryResource(), "0").pool_size() == 0


def test_a_pool_has_presets_of_our_own(trimmed: Trim) -> None:
    for preset in ("throughput", "compact", "deterministic"):
        pool = mr.PoolMemoryResource(
            mr.VirtualMemoryResource(), 0, preset=preset, release="8MiB", soft_maximum_size="16MiB"
        )
        pool.deallocate(pool.allocate(1000), 1000)
    top = mr.StatisticsResourceAdaptor(pool)
    assert trimmed(lambda: rmm_rs.trim(top)) > 0


def test_bins_serve_their_sizes() -> None:
    def counting() -> mr.StatisticsResourceAdaptor:
        return mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())

    upstream, small, large = counting(), counting(), counting()
    binning = mr.BinningMemoryResource(upstream)
    assert binning.bin_mrs == []
    binning.add_bin(1024, small)
    binning.add_bin(4096, large)
    assert binning.bin_mrs == [small, large]
    blocks = [(binning.allocate(size), size) for size in (1, 1024, 1025, 4096, 4097)]
    counts = [resource.allocation_counts.current_count for resource in (small, large, upstream)]
    assert counts == [2, 2, 1]
    # Between 1,024 and 4,096 memory is allocated, above 4,096 too; below 1,024 it is freed first.
    for size in (2048, 4096, 8192):
        with pytest.raises(RuntimeError, match="while memory of its sizes is allocated"):
            binning.add_bin(size)
    for address, size in blocks[:2]:
        binning.deallocate(address, size)
    binning.add_bin(512)
    for address, size in blocks[2:]:
        binning.deallocate(address, size)
    binning.add_bin(1024, large)
    binning.deallocate(binning.allocate(1000), 1000)
    counts = [resource.allocation_counts.current_count for resource in (small, large, upstream)]
    assert counts == [0, 0, 1], "the upstream has the blocks of the bin of 512"
    with pytest.raises(ValueError):
        binning.add_bin(0)


def test_a_limit_counts_rounded_sizes() -> None:
    limited = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), allocation_limit=1024)
    assert limited.get_allocation_limit() == 1024
    buffers = [DeviceBuffer(size=1, mr=limited) for _ in range(4)]
    assert limited.get_allocated_bytes() == 1024
    with pytest.raises(MemoryError, match="out_of_memory"):
        DeviceBuffer(size=1, mr=limited)
    del buffers
    assert limited.get_allocated_bytes() == 0


def test_counters_have_levels() -> None:
    counting = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    outer = DeviceBuffer(size=10, mr=counting)
    before = counting.push_counters()
    assert (before.current_bytes, before.current_count) == (10, 1)
    inner = DeviceBuffer(size=100, mr=counting)
    del outer
    now = counting.allocation_counts
    assert (now.current_bytes, now.current_count, now.peak_bytes, now.total_bytes) == (90, 0, 100, 100)
    assert now["peak_count"] == 1
    assert counting.pop_counters() == now
    below = counting.allocation_counts
    assert (below.current_bytes, below.peak_bytes, below.total_count) == (100, 110, 2)
    with pytest.raises(IndexError, match="cannot pop the last counter pair"):
        counting.pop_counters()
    del inner


def test_a_tracker_names_what_is_left() -> None:
    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource(), capture_stacks=True)
    assert tracking.get_outstanding_allocations_str() == ""
    buffer = DeviceBuffer(size=100, mr=tracking)
    assert tracking.get_allocated_bytes() == 100
    assert f"{buffer.ptr:x}" in tracking.get_outstanding_allocations_str()
    tracking.log_outstanding_allocations()
    del buffer
    assert tracking.get_allocated_bytes() == 0


def test_every_outstanding_allocation_has_a_line() -> None:
    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    blocks = {tracking.allocate(size): size for size in range(1, 51)}
    lines = tracking.get_outstanding_allocations_str().splitlines()
    assert lines == [f"{pointer:#x}: {size} B" for pointer, size in reversed(blocks.items())]
    for pointer, size in blocks.items():
        tracking.deallocate(pointer, size)
    assert tracking.get_outstanding_allocations_str() == ""


def line_of(text: str) -> str:
    """Where this file has a line."""
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{1 + next(n for n, line in enumerate(lines) if text in line)} in "


def test_a_tracker_names_lines_of_the_program() -> None:
    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource(), capture_stacks=True)
    buffer = DeviceBuffer(size=100, mr=tracking)  # the line of the buffer
    block = tracking.allocate(5000)  # the line of the block
    blocks = [tracking.allocate(10) for _ in range(3)]
    report = tracking.get_outstanding_allocations_str()
    assert report.startswith(f"{block:#x}: 5000 B : callstack:\n{line_of('# the line of the block')}")
    assert f": 100 B : callstack:\n{line_of('# the line of the buffer')}" in report
    assert report.count(": 10 B : callstack:\n") == 3
    assert ".rs:" not in report
    listed = tracking.outstanding()
    assert [entry["size"] for entry in listed] == [5000, 100, 10, 10, 10]
    assert [entry["ptr"] for entry in listed] == [block, buffer.ptr, *sorted(blocks)]
    place, stack = str(listed[0]["place"]), str(listed[0]["stack"])
    # The whole stack, of which pytest has a part.
    assert stack.splitlines()[0] == place and place.startswith(line_of("# the line of the block"))
    assert len(stack.splitlines()) > 10 and "pytest" in stack
    tracking.deallocate(block, 5000)
    for block in blocks:
        tracking.deallocate(block, 10)
    del buffer


#: What is wrong with a free: the size that is given, and bytes from the block; or that it is the second.
WRONG_FREES = {"smaller": (100, 0), "larger": (100_000, 0), "by one": (1001, 0), "inside": (1000, 256), "second": (1000, 0)}


@pytest.mark.parametrize("kind", WRONG_FREES)
def test_a_wrong_free_raises_where_the_program_asks(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    size, offset = WRONG_FREES[kind]
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), 0, check_frees=True)
    counted = mr.StatisticsResourceAdaptor(pool)
    block = counted.allocate(1000)  # the line of the allocation
    if kind == "second":
        counted.deallocate(block, 1000)
    with pytest.raises(ValueError, match=f"{block + offset:#x}") as caught:
        counted.deallocate(block + offset, size)  # the line of the free
    text = str(caught.value)
    assert f"freed at {line_of('# the line of the free')}" in text and str(size) in text
    if offset == 0 and kind != "second":
        assert f"allocated at {line_of('# the line of the allocation')}" in text
    else:
        assert pool.statistics()["unknown_frees"] == 1
    if kind == "inside":
        counted.deallocate(block, 1000)
    again = [counted.allocate(1000) for _ in range(2)]
    assert len(set(again)) == 2
    for block in again:
        counted.deallocate(block, 1000)
    assert pool.statistics()["live_bytes"] == 0
    assert text in capfd.readouterr().err


def test_a_tracker_counts_wrong_frees(capfd: pytest.CaptureFixture[str]) -> None:
    tracking = mr.TrackingResourceAdaptor(mr.PoolMemoryResource(mr.CudaMemoryResource(), 0, check_frees=True))
    tracking.deallocate(tracking.allocate(1000), 2000)
    assert (tracking.wrong_frees, tracking.unknown_frees) == (1, 0)
    assert "do not match" in capfd.readouterr().err


def test_a_log_has_a_line_for_each_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logging = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), str(tmp_path / "log.csv"))
    path = tmp_path / "log.dev0.csv"
    assert logging.get_file_name() == str(path)
    logging.deallocate(logging.allocate(1000), 1000)
    logging.flush()
    lines = path.read_text().splitlines()
    assert lines[0] == "Thread,Time,Action,Pointer,Size,Stream"
    assert [line.split(",")[2] for line in lines[1:]] == ["allocate", "free"]
    with pytest.raises(ValueError, match="RMM_LOG_FILE"):
        mr.LoggingResourceAdaptor(mr.CudaMemoryResource())
    monkeypatch.setenv("RMM_LOG_FILE", str(tmp_path / "named"))
    assert mr.LoggingResourceAdaptor(mr.CudaMemoryResource()).get_file_name() == str(
        tmp_path / "named.dev0"
    )


def test_the_path_of_a_log_has_no_parent_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logging = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), "missing/../log.csv")
    assert logging.get_file_name() == str(tmp_path / "log.dev0.csv")


@pytest.mark.parametrize("flag", [0, 1, "", "yes", None, []])
def test_a_flag_is_any_object(flag: object) -> None:
    cuda = mr.CudaMemoryResource()
    mr.ArenaMemoryResource(cuda, "1MiB", flag)
    mr.TrackingResourceAdaptor(cuda, flag)
    for name in ("enable_ipc", "enable_fabric"):
        try:
            mr.CudaAsyncMemoryResource(**{name: flag})  # type: ignore[arg-type]
        except RuntimeError as error:
            assert flag and "memory handle type not supported" in str(error)


@pytest.mark.parametrize(
    ("name", "named"),
    [("hello.txt", "hello.dev1.txt"), ("hello", "hello.dev1"), (".hidden", ".hidden.dev1"),
     ("a.b/c", "a.b/c.dev1"), ("a.tar.gz", "a.tar.dev1.gz")],
)
def test_the_number_goes_before_the_extension(name: str, named: str) -> None:
    assert _append_id(name, 1) == named


def test_a_device_that_is_not_there_does_no_harm() -> None:
    made = mr.get_per_device_resource(99)
    assert mr.get_per_device_resource(99) is made
    rmm_rs.reinitialize()
    assert mr.get_per_device_resource(99) is not made


@pytest.mark.usefixtures("two_devices")
def test_logging_is_turned_on_and_off(tmp_path: Path) -> None:
    rmm_rs.reinitialize(
        pool_allocator=True, initial_pool_size="1MiB", devices=[0, 1], logging=True,
        log_file_name=str(tmp_path / "a.csv"),
    )
    names = {device: str(tmp_path / f"a.dev{device}.csv") for device in (0, 1)}
    assert rmm_rs.get_log_filenames() == names
    rmm_rs.disable_logging()
    assert rmm_rs.get_log_filenames() == {0: None, 1: None}
    pool = mr.get_current_device_resource()
    assert type(pool) is mr.PoolMemoryResource
    rmm_rs.enable_logging(str(tmp_path / "b.csv"))
    assert mr.get_current_device_resource().upstream_mr is pool  # type: ignore[attr-defined]


def test_hooks_run_backwards_before_anything_else() -> None:
    calls: list[object] = []

    def hook(*args: object, **kwargs: object) -> None:
        calls.append((args, kwargs, mr.get_current_device_resource()))

    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    mr.set_current_device_resource(pool)
    assert rmm_rs.register_reinitialize_hook(hook, 1) is hook
    rmm_rs.register_reinitialize_hook(hook, 2, key=3)
    rmm_rs.reinitialize()
    assert calls == [((2,), {"key": 3}, pool), ((1,), {}, pool)]
    rmm_rs.unregister_reinitialize_hook(hook)
    rmm_rs.unregister_reinitialize_hook(print)
    rmm_rs.reinitialize()
    assert len(calls) == 2


def test_a_wrong_size_leaves_everything_as_it_was() -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    mr.set_current_device_resource(pool)
    with pytest.raises(ValueError):
        rmm_rs.reinitialize(pool_allocator=True, initial_pool_size="much")
    assert mr.get_current_device_resource() is pool


def test_managed_memory_is_initialized() -> None:
    rmm_rs.reinitialize(managed_memory=True)
    assert type(mr.get_current_device_resource()) is mr.ManagedMemoryResource
    rmm_rs.reinitialize(managed_memory=True, pool_allocator=True, initial_pool_size=1 << 20)
    pool = mr.get_current_device_resource()
    assert type(pool.upstream_mr) is mr.ManagedMemoryResource  # type: ignore[attr-defined]


def test_pools_of_the_driver_have_handles() -> None:
    assert mr.CudaAsyncMemoryResource("1MiB", release_threshold=1 << 20).pool_handle() != 0
    # The first size is released at the next synchronization.
    assert mr.CudaAsyncMemoryResource("1MiB", release_threshold=0).pool_handle() != 0
    assert mr.experimental.CudaAsyncManagedMemoryResource().pool_handle() != 0

    class CUmemoryPool(int):
        """As `cuda.bindings` has it: the class is told by its name."""

    owner = mr.CudaAsyncMemoryResource()
    view = mr.CudaAsyncViewMemoryResource(CUmemoryPool(owner.pool_handle()))
    assert view.pool_handle() == owner.pool_handle()
    view.deallocate(view.allocate(100), 100)


def test_tags_count_apart() -> None:
    tagged = mr.TaggedResourceAdaptor(mr.CudaMemoryResource())
    with rmm_rs.tag("input"):
        one = DeviceBuffer(size=100, mr=tagged)
        with rmm_rs.tag("model"):
            two = DeviceBuffer(size=10, mr=tagged)
        three = DeviceBuffer(size=1, mr=tagged)
    usage = tagged.usage()
    assert (usage["input"]["current_bytes"], usage["model"]["current_bytes"]) == (101, 10)
    del one, two, three
    assert tagged.usage()["input"]["current_bytes"] == 0


def test_a_tag_object_is_used_by_several_threads() -> None:
    tagged = mr.TaggedResourceAdaptor(mr.CudaMemoryResource())
    shared, both_inside = rmm_rs.tag("shared by threads"), threading.Barrier(2)
    first_has_left = threading.Event()
    kept: list[DeviceBuffer] = []

    def work(name: str, is_first: bool) -> None:
        with rmm_rs.tag(name):
            with shared:
                both_inside.wait(60)
                if not is_first:
                    assert first_has_left.wait(60)
                kept.append(DeviceBuffer(size=10, mr=tagged))
            first_has_left.set()
            kept.append(DeviceBuffer(size=1000, mr=tagged))
        kept.append(DeviceBuffer(size=1, mr=tagged))

    threads = [threading.Thread(target=work, args=(f"thread {n}", n == 0)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {name: tag["current_bytes"] for name, tag in tagged.usage().items() if tag["current_bytes"]}
    assert found == {"thread 0": 1000, "thread 1": 1000, "shared by threads": 20, "untagged": 2}


@pytest.mark.parametrize("is_shared", [False, True])
def test_each_task_has_its_own_tags(is_shared: bool) -> None:
    tagged = mr.TaggedResourceAdaptor(mr.CudaMemoryResource())
    shared = rmm_rs.tag("shared by tasks")
    kept: list[DeviceBuffer] = []

    async def task(name: str, size: int) -> None:
        with rmm_rs.tag(name):
            for _ in range(3):
                with shared if is_shared else rmm_rs.tag(f"{name}, inside"):
                    await asyncio.sleep(0)
                    kept.append(DeviceBuffer(size=1, mr=tagged))
                    await asyncio.sleep(0)
                kept.append(DeviceBuffer(size=size, mr=tagged))
            # A thread that gets the context, and one that gets none.
            await asyncio.to_thread(lambda: kept.append(DeviceBuffer(size=size, mr=tagged)))
            await asyncio.get_running_loop().run_in_executor(
                None, lambda: kept.append(DeviceBuffer(size=7, mr=tagged))
            )

    async def tasks() -> None:
        with rmm_rs.tag("of all"):
            await asyncio.gather(task("task a", 1000), task("task b", 3000))
            kept.append(DeviceBuffer(size=5, mr=tagged))

    asyncio.run(tasks())
    kept.append(DeviceBuffer(size=9, mr=tagged))
    found = {name: tag["current_bytes"] for name, tag in tagged.usage().items() if tag["current_bytes"]}
    inside = {"shared by tasks": 6} if is_shared else {"task a, inside": 3, "task b, inside": 3}
    assert found == {"task a": 4000, "task b": 12000, "of all": 5, "untagged": 23, **inside}


def test_tags_may_end_in_any_order() -> None:
    tagged = mr.TaggedResourceAdaptor(mr.CudaMemoryResource())
    outer, inner = rmm_rs.tag("ends first"), rmm_rs.tag("ends last")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__()
    kept = [DeviceBuffer(size=10, mr=tagged)]
    inner.__exit__()
    kept.append(DeviceBuffer(size=1, mr=tagged))
    inner.__exit__()
    found = {name: tag["current_bytes"] for name, tag in tagged.usage().items() if tag["current_bytes"]}
    assert found == {"ends last": 10, "untagged": 1}


#: Resources over `one` or over both, one of which becomes a bin of `one`, and how both are bins of others before.
ROUNDS = {
    "itself": ("pass", "one"),
    "an adaptor over itself": ("pass", "mr.StatisticsResourceAdaptor(one)"),
    "a pool over itself": ("pass", "mr.PoolMemoryResource(one, 0)"),
    "its fallback": ("pass", "mr.FallbackMemoryResource(mr.CudaMemoryResource(), one)"),
    "bins over itself": ("pass", "mr.BinningMemoryResource(one)"),
    "each other's": ("two.add_bin(512, one)", "two"),
    "each other's, by adaptors": (
        "two.add_bin(512, mr.LimitingResourceAdaptor(one, 1 << 20))", "mr.TrackingResourceAdaptor(two)",
    ),
    "three in a round": (
        "two.add_bin(512, one); three = mr.BinningMemoryResource(mr.CudaMemoryResource());"
        " three.add_bin(1024, two)", "three",
    ),
}


@pytest.mark.parametrize("kind", ROUNDS)
def test_bins_do_not_contain_themselves(kind: str) -> None:
    one, two = (mr.BinningMemoryResource(mr.CudaMemoryResource()) for _ in range(2))
    before, bin_mr = ROUNDS[kind]
    names: dict[str, Any] = {"mr": mr, "one": one, "two": two}
    exec(before, names)
    bad = eval(bin_mr, names)
    with pytest.raises(ValueError, match="its own bin"):
        one.add_bin(256, bad)
    assert one.bin_mrs == []
    one.deallocate(one.allocate(100), 100)
    shared = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    for bins in (one, two):
        bins.add_bin(256, shared)
        bins.add_bin(512, mr.StatisticsResourceAdaptor(shared))


def test_a_fallback_is_asked_second() -> None:
    first = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 256)
    second = mr.StatisticsResourceAdaptor(mr.ManagedMemoryResource())
    both = mr.FallbackMemoryResource(first, second)
    assert (both.upstream_mr, both.fallback_mr) == (first, second)
    buffers = [DeviceBuffer(size=256, mr=both) for _ in range(2)]
    assert second.allocation_counts.current_count == both.get_fallbacks() == 1
    assert both.get_fallback_bytes() == 256
    del buffers


def test_resources_are_shown() -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    top = mr.StatisticsResourceAdaptor(pool)
    assert repr(pool).startswith("<PoolMemoryResource: pool: live 0 B")
    assert "reserved 1.0 MiB" in repr(pool)
    assert repr(mr.DeviceMemoryResource()) == "<DeviceMemoryResource>"
    html = top._repr_html_()
    assert "StatisticsResourceAdaptor" in html and "reserved: <b>1.0 MiB</b>" in html
    assert "pool" in top.describe() and "cuda" in top.describe()


def test_a_specification_makes_a_stack() -> None:
    resource = mr.SpecMemoryResource("statistics(pool(cuda, initial=1MiB))")
    assert resource.spec == "statistics(pool(cuda, initial=1MiB))"
    assert "pool" in resource.describe()
    with pytest.raises(ValueError):
        mr.SpecMemoryResource("nothing(cuda)")


def test_derived_classes_have_arguments_of_their_own() -> None:
    class Named(mr.CudaMemoryResource):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class Pool(mr.PoolMemoryResource):
        def __init__(self, upstream_mr: mr.DeviceMemoryResource, initial: str) -> None:
            super().__init__(upstream_mr, initial)
            self.initial = initial

    class Methods(mr.CallbackMemoryResource):
        def __init__(self, base: mr.DeviceMemoryResource) -> None:
            super().__init__(self.take, self.give)
            self.base = base

        def take(self, size: int, stream: object) -> int:
            return self.base.allocate(size)

        def give(self, address: int, size: int, stream: object) -> None:
            self.base.deallocate(address, size)

    named = Named("name")
    pool = Pool(named, "1MiB")
    methods = Methods(pool)
    assert (named.name, pool.initial, pool.upstream_mr) == ("name", "1MiB", named)
    DeviceBuffer(size=10, mr=methods)
    with pytest.raises(RuntimeError, match="already"):
        mr.CallbackMemoryResource.__init__(methods, lambda *_: 0, lambda *_: None)
    for class_ in (mr.CudaMemoryResource, mr.ManagedMemoryResource):
        with pytest.raises(TypeError):
            class_(1)  # type: ignore[call-arg]


def test_a_callback_resource_needs_its_init() -> None:
    class Careless(mr.CallbackMemoryResource):
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError):
        Careless().allocate(10)
    with pytest.raises(TypeError):
        mr.CallbackMemoryResource()  # type: ignore[call-arg]
