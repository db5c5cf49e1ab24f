"""The hook of Ray's workers: in processes of their own that are begun as Ray begins them, and where
Ray is installed, in its workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmm_rs.integrations.ray import runtime_env, setup

HERE = Path(__file__).resolve().parent

Run = Callable[..., Any]
Needs = Callable[..., None]

# A worker of Ray: its hook runs, then it learns its GPU, then the actor's class is made.
WORKER = """
import os
from rmm_rs.integrations.ray import setup
setup()
os.environ["CUDA_VISIBLE_DEVICES"] = {gpus!r}
import rmm, rmm_rs
assert rmm is rmm_rs
"""


def worker(
    run: Run, code: str, gpus: str = "1", spec: str = "pool(max=8MiB)", **variables: str
) -> Any:
    """A process as Ray's, on a machine with two devices."""
    env = {**runtime_env(spec)["env_vars"], "RMM_SIM_DEVICES": "2", **variables}
    return run(WORKER.format(gpus=gpus) + code, env=env)


def succeeds(result: Any) -> None:
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_the_environment_names_the_hook_and_the_pool() -> None:
    made = runtime_env("pool(max=8GiB)", rmm="plug-in", env_vars={"A": "1"}, pip=["numpy"])
    assert made == {
        "env_vars": {"A": "1", "RMM_RESOURCE": "pool(max=8GiB)", "RMM_RS_RAY": "plug-in"},
        "pip": ["numpy"],
        "worker_process_setup_hook": "rmm_rs.integrations.ray.setup",
    }
    assert runtime_env()["env_vars"] == {"RMM_RESOURCE": "pool", "RMM_RS_RAY": "alias"}


def test_wrong_arguments_are_refused_where_they_are_given() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"spec": "pool(maximum=1)"}, "maximum"),
        ({"rmm": "real"}, "rmm: 'real'"),
        ({"env_vars": {"RMM_RESOURCE": "pool"}}, "RMM_RESOURCE"),
        ({"worker_process_setup_hook": setup}, "worker_process_setup_hook"),
    ]
    for arguments, text in wrong:
        with pytest.raises(ValueError, match=text):
            runtime_env(**arguments)


@pytest.mark.parametrize(("gpus", "count"), [("1", 1), ("0", 1), ("1,0", 2)])
def test_the_pool_is_of_the_visible_device(run: Run, gpus: str, count: int) -> None:
    succeeds(
        worker(
            run,
            f"""
from rmm._cuda.gpu import getDeviceCount
assert getDeviceCount() == {count}
for device in range({count}):
    rmm._cuda.gpu.setDevice(device)
    buffer = rmm.DeviceBuffer(size=1000)
    pool = rmm.mr.get_current_device_resource()
    assert type(pool).__name__ == "SpecMemoryResource" and pool.spec == "pool(max=8MiB)"
    assert "live 1.0 KiB" in pool.describe() and "maximum 8.0 MiB" in pool.describe()
    assert rmm.mr.get_per_device_resource(device) is pool
""",
            gpus,
        )
    )


def test_a_worker_without_a_gpu_works_until_it_allocates(run: Run) -> None:
    result = worker(run, "print('begun')\nrmm.DeviceBuffer(size=10)", gpus="")
    assert (result.returncode, result.stdout) == (1, "begun\n")
    assert "NO_DEVICE" in result.stderr.splitlines()[-1], result.stderr


def test_a_wrong_variable_is_named(run: Run) -> None:
    for variables, text in (
        ({"RMM_RESOURCE": "pool(maximum=1)"}, "ValueError: RMM_RESOURCE: "),
        ({"RMM_RS_RAY": "real"}, "ValueError: RMM_RS_RAY=real: 'alias' and 'plug-in' are known"),
    ):
        result = worker(run, "", **variables)
        assert result.returncode == 1 and text in result.stderr, result.stderr


def test_a_worker_without_the_plug_in_names_it_and_the_variable(run: Run) -> None:
    code = """
import sys
sys.modules["rmm_rs_plugin"] = None
import rmm_rs.integrations.ray
rmm_rs.integrations.ray.setup()
"""
    result = run(code, env={"RMM_RS_RAY": "plug-in"})
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ImportError: RMM_RS_RAY=plug-in needs the packages rmm-rs-plugin-cu13")


def test_the_real_rmm_is_not_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rmm.py").write_text("")
    result = run(
        "import rmm, rmm_rs.integrations.ray as ours; ours.setup()",
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert "rmm is imported already" in result.stderr.splitlines()[-1]


def test_a_worker_ends_and_forks_with_its_pool(run: Run) -> None:
    succeeds(
        worker(
            run,
            """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
kept = rmm.DeviceBuffer(size=1000)
child = os.fork()
if child == 0:
    try:
        rmm.DeviceBuffer(size=10)
    except RuntimeError as error:
        os._exit(7 if "start processes with spawn" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
""",
        )
    )


FIRST = """
import rmm_rs
from rmm_rs import mr
"""


def test_the_first_resource_is_that_of_the_variable(run: Run) -> None:
    env = {"RMM_RESOURCE": "statistics(pool(max=8MiB))", "RMM_SIM_DEVICES": "2"}
    succeeds(
        run(
            FIRST + """
import threading
found = []
threads = [
    threading.Thread(target=lambda: found.append(mr.get_per_device_resource(1))) for _ in range(8)
]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(set(map(id, found))) == 1 and found[0].describe().startswith("statistics")
assert rmm_rs._cuda.gpu.getDevice() == 0
first = mr.get_current_device_resource()
assert first is not found[0] and first.spec == "statistics(pool(max=8MiB))"
mr.set_current_device_resource(mr.CudaMemoryResource())
assert type(mr.get_current_device_resource()) is mr.CudaMemoryResource
rmm_rs.reinitialize()
assert type(mr.get_current_device_resource()) is mr.CudaMemoryResource
""",
            env=env,
        )
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [("pol", "ValueError: RMM_RESOURCE: "), ("pool(initial=4096GiB)", "MemoryError: RMM_RESOURCE: ")],
)
def test_a_first_resource_that_cannot_be_made_names_the_variable(
    run: Run, text: str, error: str
) -> None:
    result = run(FIRST + "rmm_rs.DeviceBuffer(size=10)", env={"RMM_RESOURCE": text})
    assert result.returncode == 1
    assert error in result.stderr, result.stderr


def test_an_empty_variable_is_none(run: Run) -> None:
    code = FIRST + "assert type(mr.get_current_device_resource()) is mr.CudaMemoryResource"
    succeeds(run(code, env={"RMM_RESOURCE": ""}))


def test_actors_of_ray_have_a_pool_of_their_device(run: Run, needs: Needs) -> None:
    needs("ray")
    result = run("", arguments=(str(HERE / "ray_program.py"), "alias"), timeout=300)
    assert result.returncode == 0, result.stderr[-6000:]
    assert result.stdout.splitlines()[-1] == "done", result.stdout
