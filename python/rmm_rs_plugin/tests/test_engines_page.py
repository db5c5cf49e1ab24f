"""The programs of docs/engines.md, as printed: one that needs what is not installed is skipped by
its name. That of Dask is in `python/rmm_rs/tests/test_dask.py`, that of torchrun in
`python/rmm_rs_torch/tests/test_torchrun.py`."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import HERE, ON_GPU

ROOT = HERE.parents[2]
PAGE = (ROOT / "docs" / "engines.md").read_text()
SOFTWARE = ROOT / "target" / "debug" / "librmm_sim_driver.so"


def printed(heading: str) -> str:
    """The program below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"```(?:py|sh)\n(.*?)```", section, re.S)
    return str(program)


def needs(*packages: str) -> None:
    for package in packages:
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"needs {package}")


def succeeds(result: Any, last: str) -> None:
    assert result.returncode == 0, result.stdout + result.stderr[-6000:]
    assert result.stdout.splitlines()[-1] == last, result.stdout


def test_each_program_of_the_page_has_a_test() -> None:
    headings = re.findall(r"\n## (.*)\n", PAGE)
    with_programs = [heading for heading in headings if "```" in PAGE.split(f"\n## {heading}\n")[1]]
    assert with_programs == ["cudf-polars", "rapidsmpf", "Ray", "Dask", "torchrun"]


# A query of cudf-polars takes its resource from the variables. Its library has hundreds of
# megabytes, so a query is its own configuration here, or else the rule that it follows.
QUERY = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import conftest, json, os, test_engines
prefix = "CUDF_POLARS__MEMORY_RESOURCE_CONFIG__"
name, options = os.environ[prefix + "QUALNAME"], json.loads(os.environ[prefix + "OPTIONS"])
made = test_engines.by_name(name, options)
if sys.argv[1:] == ["with cudf-polars"]:
    made = test_engines.by_cudf_polars()
print(type(made).__name__, "maximum 60.0 GiB" in made.describe(), made.allocate(1000) != 0)
"""


@pytest.mark.parametrize("query", ["by the rule", "with cudf-polars"])
def test_cudf_polars_takes_a_pool_from_variables(tmp_path: Path, query: str) -> None:
    if query == "with cudf-polars":
        needs("cudf_polars")
    (tmp_path / "query.py").write_text(QUERY)
    result = subprocess.run(
        ["bash", "-c", printed("cudf-polars").rstrip() + f" '{query}'"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=False,
    )
    succeeds(result, "DefaultPoolMemoryResource True True")


# The software driver has no calls for the thread that looks at the memory every millisecond.
NO_THREAD = """
import rapidsmpf.memory.buffer_resource as module
theirs = module.BufferResource
module.BufferResource = lambda pool: theirs(pool, periodic_spill_check=None)
"""


def test_rapidsmpf_spills(run: Callable[..., Any]) -> None:
    needs("rapidsmpf.memory.buffer_resource")
    begin = "" if ON_GPU else NO_THREAD
    program = (
        begin
        + printed("rapidsmpf")
        + textwrap.dedent("""
        import rmm

        kept = [rmm.DeviceBuffer(size=5 << 30, mr=pool)]
        spill = lambda amount: kept.pop().size if kept else 0
        buffers.spill_manager.add_spill_function(spill, 0)
        print(rmm.DeviceBuffer(size=6 << 30, mr=pool).size, len(kept))
    """)
    )
    succeeds(run(program), f"{6 << 30} 0")


def test_workers_of_ray_have_the_alias() -> None:
    needs("ray")
    program = printed("Ray") + textwrap.dedent("""
        def found():
            import rmm, rmm_rs.integrations.ray
            return rmm.__name__

        print(ray.get(ray.remote(found).remote(), timeout=120))
        ray.shutdown()
    """)
    # Else Ray writes a token into the user's folder; the name of a socket has 107 bytes at most.
    variables = {
        "RAY_AUTH_MODE": "disabled",
        "RAY_TMPDIR": "/tmp",
        "RMM_CUDA_LIBRARY": str(SOFTWARE),
    }
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **variables},
        check=False,
    )
    succeeds(result, "rmm_rs")
