"""What engines make by name and call back."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import rmm
import rmm.mr
import rmm_rs_plugin
from rmm_rs_plugin import DefaultPoolMemoryResource, SpecMemoryResource, spill_on_pressure

ROOT = Path(__file__).resolve().parents[3]
MIB = 1 << 20
OURS = [
    ("DefaultPoolMemoryResource", {"maximum_pool_size": "8MiB", "preset": "compact"}),
    ("DefaultPoolMemoryResource", {"initial_pool_size": 1 << 20, "stream_policy": "checked"}),
    ("SpecMemoryResource", {"spec": "statistics(pool(max=8MiB))"}),
    ("DeferredMemoryResource", {"spec": "pool(max=8MiB)"}),
    ("PoolMemoryResource", {"initial_pool_size": "1MiB"}),
    (
        "PoolMemoryResource",
        {"upstream_mr": {"qualname": "rmm.mr.CudaMemoryResource"}, "initial_pool_size": "1MiB"},
    ),
]


def by_name(qualname: str, options: dict[str, Any] | None) -> Any:
    """A resource as cudf-polars makes it: the nested ones first."""
    values = {
        key: by_name(value["qualname"], value.get("options"))
        if isinstance(value, dict) and "qualname" in value
        else value
        for key, value in (options or {}).items()
    }
    module, name = qualname.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**values)


def by_cudf_polars(*given: Any, **named: Any) -> Any:
    """The same by its own class, whose module imports libraries that the class does not use.
    Without arguments its variables count."""
    package = importlib.util.find_spec("cudf_polars")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs cudf_polars")
    path = Path(next(iter(package.submodule_search_locations))) / "utils" / "config.py"
    names = [
        name
        for name in ("kvikio", "kvikio.defaults", "pylibcudf", "pylibcudf.utils")
        if importlib.util.find_spec(name.partition(".")[0]) is None
    ]
    before = dict(sys.modules)
    sys.modules.update({name: mock.MagicMock() for name in names})
    try:
        spec: Any = importlib.util.spec_from_file_location("cudf_polars_config", path)
        module: Any = importlib.util.module_from_spec(spec)
        sys.modules["cudf_polars_config"] = module
        spec.loader.exec_module(module)
        config = module.MemoryResourceConfig(*given, **named)
        return pickle.loads(pickle.dumps(config)).create_memory_resource()
    finally:
        for name in [*names, "cudf_polars_config"]:
            if name not in before:
                sys.modules.pop(name, None)


@pytest.mark.parametrize("make", [by_name, by_cudf_polars])
@pytest.mark.parametrize(("name", "options"), OURS)
def test_a_class_is_made_from_json(
    make: Callable[..., Any], name: str, options: dict[str, Any]
) -> None:
    text = json.dumps({"qualname": f"rmm_rs_plugin.{name}", "options": options})
    pool = make(**json.loads(text))
    buffer = rmm.DeviceBuffer(size=1000, mr=pool)
    assert pool.statistics()["live_bytes"] >= buffer.size
    nested = make("rmm.mr.StatisticsResourceAdaptor", {"upstream_mr": json.loads(text)})
    kept = rmm.DeviceBuffer(size=1000, mr=nested)
    assert nested.allocation_counts.current_bytes == kept.size


def test_a_pickle_makes_another_pool() -> None:
    for made in (
        DefaultPoolMemoryResource("1MiB", "8MiB", preset="compact"),
        SpecMemoryResource("pool(max=8MiB)"),
    ):
        pool = pickle.loads(pickle.dumps(made))
        assert type(pool) is type(made)
        assert "maximum 8.0 MiB" in pool.describe()
        buffer = rmm.DeviceBuffer(size=1000, mr=pool)
        assert pool.statistics()["live_bytes"] >= buffer.size
        assert made.statistics()["live_bytes"] == 0


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"maximum_size": 1}, TypeError, "maximum_size"),
        ({"maximum_pool_size": 1.5}, TypeError, "^maximum_pool_size: "),
        ({"maximum_pool_size": "6 bananas"}, ValueError, "^maximum_pool_size: "),
        ({"maximum_pool_size": 100}, ValueError, "^maximum_pool_size: 100 is no multiple"),
        ({"maximum_pool_size": 0}, ValueError, "^maximum_pool_size: "),
        ({"initial_pool_size": True}, TypeError, "^initial_pool_size: "),
        ({"initial_pool_size": -256}, ValueError, "^initial_pool_size: "),
        ({"initial_pool_size": None}, TypeError, "^initial_pool_size: "),
        ({"initial_pool_size": 512, "maximum_pool_size": 256}, ValueError, "^initial_pool_size: "),
        ({"preset": "fast"}, ValueError, "^preset: 'fast'"),
        ({"preset": {}}, TypeError, "^preset: "),
        ({"stream_policy": 3}, TypeError, "^stream_policy: 3"),
    ],
)
def test_a_wrong_option_is_named(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        by_name("rmm_rs_plugin.DefaultPoolMemoryResource", options)


def test_a_wrong_specification_and_a_wrong_name_are_refused() -> None:
    for name in ("SpecMemoryResource", "DeferredMemoryResource"):
        for wrong, error in (("pool(", ValueError), (3, TypeError)):
            with pytest.raises(error, match=r"^spec: "):
                by_name(f"rmm_rs_plugin.{name}", {"spec": wrong})
    with pytest.raises(AttributeError, match=r"rmm_rs_plugin.*DefaultPool"):
        by_name("rmm_rs_plugin.DefaultPool", None)


def test_a_callback_frees_what_is_missing() -> None:
    pool = DefaultPoolMemoryResource(maximum_pool_size="8MiB")
    kept = [rmm.DeviceBuffer(size=4 * MIB, mr=pool)]
    seen: list[rmm_rs_plugin.Pressure] = []

    def free(pressure: rmm_rs_plugin.Pressure) -> bool:
        seen.append(pressure)
        kept.clear()
        return True

    with pool.on_pressure(free):
        buffer = rmm.DeviceBuffer(size=6 * MIB, mr=pool)
    assert seen[0].requested == 6 * MIB and 0 < seen[0].missing <= 6 * MIB
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=4 * MIB, mr=pool)
    assert len(seen) == 1 and buffer.size == 6 * MIB
    with pytest.raises(RuntimeError):
        SpecMemoryResource("cuda").on_pressure(free)
    with pytest.raises(TypeError):
        pool.on_pressure(3)  # type: ignore[arg-type]


class Spilling:
    """A `BufferResource` whose manager spills buffers under a mutex, as rapidsmpf's does."""

    def __init__(self) -> None:
        self.spill_manager = self
        self.kept: list[rmm.DeviceBuffer] = []
        self.asked: list[int] = []
        self.mutex = threading.Lock()
        self.inside: Callable[[], None] = lambda: None

    def spill(self, amount: int) -> int:
        assert self.mutex.acquire(timeout=60)
        try:
            self.asked.append(amount)
            self.inside()
            freed = 0
            while self.kept and freed < amount:
                freed += self.kept.pop().size
            return freed
        finally:
            self.mutex.release()


def test_a_buffer_resource_spills_and_a_nested_request_fails() -> None:
    pool = DefaultPoolMemoryResource(maximum_pool_size="8MiB")
    spilling = Spilling()
    guard = spill_on_pressure(pool, spilling)

    def nested() -> None:
        with pytest.raises(MemoryError):
            rmm.DeviceBuffer(size=6 * MIB, mr=pool)

    spilling.inside = nested
    spilling.kept = [rmm.DeviceBuffer(size=MIB, mr=pool) for _ in range(6)]
    buffer = rmm.DeviceBuffer(size=6 * MIB, mr=pool)
    assert buffer.size == 6 * MIB and spilling.asked
    guard.remove()
    with pytest.raises(TypeError, match="buffer_resource"):
        spill_on_pressure(pool, object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pool"):
        spill_on_pressure(rmm.mr.CudaMemoryResource(), spilling)  # type: ignore[arg-type]


def test_threads_spill_at_once() -> None:
    pool = DefaultPoolMemoryResource(maximum_pool_size="8MiB")
    spilling = Spilling()
    guard = spill_on_pressure(pool, spilling)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                try:
                    spilling.kept.append(rmm.DeviceBuffer(size=3 * MIB, mr=pool))
                except MemoryError:
                    pass
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert not failures and spilling.asked
    guard.remove()


def test_rapidsmpf_spills_before_a_refusal() -> None:
    name = "rapidsmpf.memory.buffer_resource"
    module: Any = pytest.importorskip(name, reason="needs rapidsmpf")
    pool = DefaultPoolMemoryResource(maximum_pool_size="8MiB")
    for _ in range(2):  # an engine is reset
        resource = module.BufferResource(pool, periodic_spill_check=None)
        kept = [rmm.DeviceBuffer(size=4 * MIB, mr=pool)]
        asked: list[int] = []

        def spill(amount: int, kept: Any = kept, asked: Any = asked) -> int:
            asked.append(amount)
            freed = int(sum(buffer.size for buffer in kept))
            kept.clear()
            return freed

        resource.spill_manager.add_spill_function(spill, 0)
        with spill_on_pressure(pool, resource):
            buffer = rmm.DeviceBuffer(size=6 * MIB, mr=pool)
            assert asked and buffer.size == 6 * MIB
            with pytest.raises(MemoryError):
                rmm.DeviceBuffer(size=6 * MIB, mr=pool)
        del buffer, resource
    assert pool.statistics()["live_bytes"] == 0


def test_a_process_ends_and_forks_with_engines_alive(run: Callable[..., Any]) -> None:
    result = run("""
import os, threading, warnings, rmm, rmm.mr, rmm_rs_plugin
warnings.simplefilter("ignore", DeprecationWarning)
(first,) = rmm_rs_plugin.install_deferred("pool(max=8MiB)")
pool = rmm_rs_plugin.DefaultPoolMemoryResource(maximum_pool_size="8MiB")
guards = [pool.on_pressure(lambda pressure: False)]
kept = [rmm.DeviceBuffer(size=4 << 20, mr=pool), rmm.DeviceBuffer(size=100)]
assert rmm.mr.get_current_device_resource() is first and first.statistics()["live_bytes"]
child = os.fork()
if child == 0:
    try:
        pool.allocate(6 << 20)
    except (MemoryError, RuntimeError):
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
begun = threading.Event()
def work():
    while True:
        try:
            rmm.DeviceBuffer(size=6 << 20, mr=pool)
        except MemoryError:
            begun.set()
threading.Thread(target=work, daemon=True).start()
begun.wait()
""")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("way", ["alias", "plug-in"])
def test_actors_of_ray_have_a_pool(way: str) -> None:
    pytest.importorskip("ray", reason="needs ray")
    driver = str(ROOT / "target" / "debug" / "librmm_sim_driver.so")
    more = {"RMM_CUDA_LIBRARY": driver} if way == "alias" else {"SOFTWARE": str(Path(__file__).parent)}
    program = str(ROOT / "python" / "rmm_rs" / "tests" / "ray_program.py")
    result = subprocess.run(
        [sys.executable, program, way],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "RMM_SIM_DEVICES": "2", **more},
    )
    assert result.returncode == 0, result.stderr[-6000:]
    assert result.stdout.splitlines()[-1] == "done"


def test_ucxx_is_imported_beside_the_plug_in() -> None:
    ucxx = pytest.importorskip("ucxx", reason="needs ucxx")
    assert ucxx.__version__
