"""The installed wheel is all that packages in C++ and Cython are built against, beside CCCL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import librmm_rs
import pytest

HERE = Path(__file__).resolve().parent

#: What every Linux has.
SYSTEM = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "libstdc++.so.6",
}


def run(*command: str | Path, **variables: str) -> str:
    """What a program prints; its output is the error if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def fetched(folder: Path, *requirements: str) -> Path:
    """The folder with the headers of these packages; skips where pip cannot fetch them."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    done = subprocess.run([*command, *requirements], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"pip cannot fetch {requirements}")
    return folder / "nvidia/cu13"


@pytest.fixture(scope="session")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CUDA's headers and its runtime."""
    packages = ["nvidia-cuda-runtime==13.*", "nvidia-cuda-crt==13.*"]
    return fetched(tmp_path_factory.mktemp("cuda"), *packages)


@pytest.fixture(params=["13.3.3.*", "13.3.5.*", "main"])
def cccl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders with the headers of CCCL 3.3, 3.5, and of a checkout."""
    if request.param != "main":
        folder = fetched(tmp_path_factory.mktemp("cccl"), f"nvidia-cuda-cccl=={request.param}")
        return [folder / "include/cccl"]
    checkout = os.environ.get("RMM_RS_CCCL")
    if not checkout:
        pytest.skip("RMM_RS_CCCL names no checkout of CCCL")
    return [Path(checkout) / name for name in ("libcudacxx/include", "cub", "thrust")]


def test_the_library_needs_the_system_alone() -> None:
    library = Path(librmm_rs.get_library_dir()) / "librmm_rs.so.1"
    dynamic = run("readelf", "--dynamic", library)
    lines = [line for line in dynamic.splitlines() if "(NEEDED)" in line]
    needed = {line.split("[")[1].rstrip("]") for line in lines}
    assert needed
    assert needed <= SYSTEM, needed
    assert "soname: [librmm_rs.so.1]" in dynamic


def test_cpp_is_built_by_cmake(cccl: list[Path], cuda: Path, tmp_path: Path) -> None:
    includes = ";".join(str(folder) for folder in [*cccl, cuda / "include"])
    runtime = cuda / "lib/libcudart.so.13"
    options = [f"-DCUDA_INCLUDES={includes}", f"-DCUDA_RUNTIME={runtime}"]
    prefix = Path(librmm_rs.__file__).parent
    run("cmake", "-S", HERE, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", *options)
    run("cmake", "--build", tmp_path)
    printed = run(tmp_path / "program", LD_LIBRARY_PATH=str(runtime.parent))
    assert printed == f"{1 << 20}\n"


def test_the_names_for_a_linker_and_pkg_config_lead_to_the_library(tmp_path: Path) -> None:
    source = tmp_path / "version.c"
    source.write_text("#include <rmm_rs.h>\nint main(void) { return rmm_rs_abi_version() == 0; }\n")
    library = librmm_rs.get_library_dir()
    try:
        files = f"{library}/pkgconfig"
        flags = run("pkg-config", "--cflags", "--libs", "rmm_rs", PKG_CONFIG_PATH=files)
    except FileNotFoundError:
        flags = f"-I{librmm_rs.get_include()} -L{library} -lrmm_rs"
    program = tmp_path / "version"
    run("cc", source, "-o", program, *flags.split(), f"-Wl,-rpath,{library}")
    run(program)


def test_a_module_in_cython_is_linked_with_it(tmp_path: Path) -> None:
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    setup = tmp_path / "setup.py"
    setup.write_text(
        "import librmm_rs\n"
        "from Cython.Build import cythonize\n"
        "from setuptools import Extension, setup\n"
        "module = Extension('module', ['module.pyx'], include_dirs=[librmm_rs.get_include()],\n"
        "                   library_dirs=[librmm_rs.get_library_dir()], libraries=['rmm_rs'])\n"
        "setup(name='module', ext_modules=cythonize([module]))\n"
    )
    (tmp_path / "module.pyx").write_text((HERE / "module.pyx").read_text())
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import librmm_rs\n"
        "first = librmm_rs.load_library()\n"
        "assert librmm_rs.load_library()._handle == first._handle\n"
        "import module\n"
        "assert module.allocates('pool(cuda)', 1 << 20) == ''\n"
        "print(module.allocates('pool(cuda, max=1MiB)', 1 << 21))\n"
    )
    printed = run(sys.executable, "-c", program, tmp_path)
    assert "limit 1.0 MiB" in printed
