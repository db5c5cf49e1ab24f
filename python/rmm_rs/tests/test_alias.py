"""`rmm` as another name of this package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def succeeds(result: Any) -> None:
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_every_module_is_the_same_object(run: Run) -> None:
    succeeds(run("""
import rmm_rs, sys
spec = rmm_rs.mr.__spec__
import rmm_rs.as_rmm
import rmm, rmm.mr, rmm.allocators.cupy
from rmm.pylibrmm.memory_resource import _memory_resource
import rmm.pylibrmm.stream as stream
assert rmm is rmm_rs and rmm.mr is rmm_rs.mr
assert sys.modules["rmm.mr"] is sys.modules["rmm_rs.mr"]
for name, module in list(sys.modules.items()):
    if name.startswith("rmm."):
        assert module is sys.modules["rmm_rs" + name[3:]], name
assert rmm_rs.mr.__spec__ is spec and spec.name == "rmm_rs.mr"
assert rmm.__version__.startswith("26.10.0+rmm.rs."), rmm.__version__
assert stream.Stream is rmm_rs.pylibrmm.stream.Stream
import rmm_rs.as_rmm
rmm_rs.as_rmm.install()
"""))


MAIN = """
import atexit, pickle, sys
import rmm
VALUE = 7
def is_main():
    import __main__
    return __main__.VALUE == 7 and __main__ is sys.modules["__main__"]
print(__name__, is_main(), pickle.loads(pickle.dumps(is_main))(), sys.argv[1:])
atexit.register(lambda: print("at exit", is_main()))
"""


@pytest.mark.parametrize("way", ["-c", "program", "-m", "folder"])
def test_a_program_is_the_main_module(run: Run, tmp_path: Path, way: str) -> None:
    (tmp_path / "a_program.py").write_text(MAIN)
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_folder" / "__main__.py").write_text(MAIN)
    ways = {
        "-c": ("-c", MAIN),
        "program": (str(tmp_path / "a_program.py"),),
        "-m": ("-m", "a_program"),
        "folder": (str(tmp_path / "a_folder"),),
    }
    arguments = ("-m", "rmm_rs", *ways[way], "one", "two")
    result = run("", arguments=arguments, env={"PYTHONPATH": str(tmp_path)})
    succeeds(result)
    assert result.stdout.splitlines() == ["__main__ True True ['one', 'two']", "at exit True"]


def test_pickles_load_under_either_name(run: Run) -> None:
    succeeds(run("""
import pickle, rmm_rs
made = pickle.dumps(rmm_rs.DeviceBuffer.to_device(b"abc"))
import rmm_rs.as_rmm, rmm
assert bytes(pickle.loads(made)) == b"abc"
"""))


def test_a_real_rmm_is_not_replaced(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rmm").mkdir()
    (tmp_path / "rmm" / "__init__.py").write_text("REAL = True\n")
    code = """
import rmm, sys
finders = list(sys.meta_path)
try:
    import rmm_rs.as_rmm
except ImportError as error:
    assert "rmm/__init__.py" in str(error), error
else:
    raise SystemExit("it was replaced")
assert rmm.REAL and sys.modules["rmm"] is rmm and sys.meta_path == finders
"""
    succeeds(run(code, env={"PYTHONPATH": str(tmp_path)}))


def test_the_package_never_imports_rmm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rmm").mkdir()
    (tmp_path / "rmm" / "__init__.py").write_text("raise SystemExit('rmm was imported')\n")
    code = """
import importlib, pkgutil, sys, rmm_rs
for found in pkgutil.walk_packages(rmm_rs.__path__, "rmm_rs."):
    if found.name not in ("rmm_rs.as_rmm", "rmm_rs.__main__", "rmm_rs.integrations.dask"):
        importlib.import_module(found.name)
rmm_rs.reinitialize(pool_allocator=True, initial_pool_size="1MiB")
rmm_rs.DeviceBuffer.to_device(b"abc").copy()
assert "rmm" not in sys.modules
"""
    succeeds(run(code, env={"PYTHONPATH": str(tmp_path)}))


IMPORTS_NOT = """
import rmm_rs.as_rmm
try:
    import {package}
except ImportError as error:
    assert "rmm-rs-plugin" in str(error), error
else:
    raise SystemExit("it was imported")
"""


@pytest.mark.parametrize("package", ["cudf", "pylibcudf", "cuml", "cugraph", "pylibraft"])
def test_what_was_compiled_against_rmm_is_refused(run: Run, package: str) -> None:
    succeeds(run(IMPORTS_NOT.format(package=package)))


@pytest.mark.parametrize(("version", "is_refused"), [("0.51.00", True), ("0.52.00", False)])
def test_a_ucxx_of_before_it_left_rmm_is_refused(
    run: Run, tmp_path: Path, version: str, is_refused: bool
) -> None:
    information = tmp_path / "ucxx_cu13-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Name: ucxx-cu13\nVersion: {version}\n")
    (tmp_path / "ucxx.py").touch()
    code = IMPORTS_NOT.format(package="ucxx") if is_refused else "import rmm_rs.as_rmm, ucxx"
    succeeds(run(code, env={"PYTHONPATH": str(tmp_path)}))


def test_modules_that_are_not_here_are_named_as_rmms(run: Run) -> None:
    succeeds(run("""
import rmm_rs.as_rmm
try:
    import rmm.librmm.cuda_stream
except ModuleNotFoundError as error:
    assert "rmm.librmm.cuda_stream" in str(error), error
else:
    raise SystemExit("it was found")
"""))


def test_programs_run_under_the_alias(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import rmm, sys\nprint(rmm.DeviceBuffer(size=3).size, sys.argv[1:])\n")
    for arguments in (
        ("-m", "rmm_rs", str(program), "a"),
        ("-m", "rmm_rs", "-c", program.read_text(), "a"),
    ):
        result = run("", arguments=arguments)
        assert (result.returncode, result.stdout, result.stderr) == (0, "3 ['a']\n", "")
    result = run("", arguments=("-m", "rmm_rs", "-m", "program", "a"),
                 env={"PYTHONPATH": str(tmp_path)})
    assert (result.returncode, result.stdout, result.stderr) == (0, "3 ['a']\n", "")


def test_pytest_takes_the_alias_as_a_plugin(run: Run, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import rmm\n\ndef test_it():\n    assert rmm.DeviceBuffer(size=3).size == 3\n"
    )
    arguments = ("-m", "pytest", "-q", "-p", "rmm_rs.as_rmm", "-p", "no:cacheprovider",
                 str(tmp_path))
    result = run("", arguments=arguments)
    assert result.returncode == 0 and "1 passed" in result.stdout, result.stdout
