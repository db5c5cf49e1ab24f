"""A cluster of Ray with two actors of a GPU each. Its argument is what RMM is in the workers.

``RMM_CUDA_LIBRARY`` names the software driver, which both processes of the test have; the real RMM
needs `python/rmm_rs_plugin/tests/software.py` in a worker, for which ``SOFTWARE`` is its folder.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from typing import Any

from rmm_rs.integrations.ray import runtime_env

ray: Any = importlib.import_module("ray")


def on_software() -> None:
    """The hook, after the real RMM's library has found the software driver."""
    sys.path.insert(0, os.environ["SOFTWARE"])
    importlib.import_module("software").use()
    importlib.import_module("rmm_rs.integrations.ray").setup()


class Actor:
    """What an actor sees of its memory."""

    def run(self) -> dict[str, Any]:
        rmm: Any = importlib.import_module("rmm")
        buffer = rmm.DeviceBuffer(size=1000)
        resource: Any = rmm.mr.get_current_device_resource()
        gpus = os.environ["CUDA_VISIBLE_DEVICES"]
        return {
            "rmm": rmm.__name__,
            "gpus": gpus,
            "count": rmm._cuda.gpu.getDeviceCount(),
            "resource": f"{type(resource).__name__}: {resource.describe()}",
            "size": buffer.size,
        }


def main(way: str, folder: str) -> None:
    """Starts the cluster, whose sockets are in a folder, and asks both actors."""
    environment: dict[str, Any] = runtime_env("pool(max=8MiB)", rmm=way)  # type: ignore[arg-type]
    if "SOFTWARE" in os.environ:
        environment["worker_process_setup_hook"] = on_software
        environment["env_vars"]["SOFTWARE"] = os.environ["SOFTWARE"]
    # Else Ray writes a token into the user's folder.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init(
        num_cpus=2,
        num_gpus=2,
        include_dashboard=False,
        # The least that Ray takes.
        object_store_memory=80 << 20,
        log_to_driver=False,
        runtime_env=environment,
        _temp_dir=folder,
    )
    actor = ray.remote(num_gpus=1, num_cpus=0)(Actor)
    actors = [actor.remote() for _ in range(2)]
    answers = ray.get([each.run.remote() for each in actors], timeout=120)
    print(answers)
    assert sorted(answer["gpus"] for answer in answers) == ["0", "1"]
    for answer in answers:
        assert answer["rmm"] == ("rmm_rs" if way == "alias" else "rmm")
        # Loaded by `on_software`, the software driver has counted before Ray has said which one.
        assert answer["count"] == (2 if "SOFTWARE" in os.environ else 1)
        assert answer["size"] == 1000
        kind = "SpecMemoryResource" if way == "alias" else "DeferredMemoryResource"
        assert answer["resource"].startswith(kind), answer
        assert "maximum 8.0 MiB" in answer["resource"], answer
    ray.shutdown()
    print("done")


if __name__ == "__main__":
    # The name of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as short:
        main(sys.argv[1], short)
