"""What the extension module asks of other libraries, and of the package `rmm_rs`."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from rmm_rs_plugin import _plugin

# RMM's library, C++'s and C's.
MAY_NEED = re.compile(r"librmm\.so|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libc\.so\.6|libm\.so\.6|ld-linux.*")


def readelf(*options: str) -> str:
    program = shutil.which("readelf")
    if program is None:
        pytest.skip("needs readelf")
    command = [program, "--wide", *options, _plugin.__file__]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_it_needs_rmms_library_by_name_and_none_of_cuda() -> None:
    dynamic = readelf("--dynamic")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert "librmm.so" in needed
    assert [name for name in needed if not MAY_NEED.fullmatch(name)] == []
    assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic)


def test_it_links_to_nothing_of_the_engine() -> None:
    symbols = re.findall(r" (\w+)(?:@\S+)?$", readelf("--dyn-syms"), re.M)
    assert "PyInit__plugin" in symbols
    # C++ names have the namespace in them, which is no symbol of the C interface.
    assert [name for name in symbols if name.startswith("rmm_rs_")] == []


def test_an_older_rmm_rs_is_refused(run: Callable[..., Any]) -> None:
    result = run("""
import ctypes
import rmm_rs._rmm
table = (ctypes.c_size_t * 2)(16, 0)
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
rmm_rs._rmm._C_API = new(ctypes.addressof(table), b"rmm_rs._rmm.c_api_v1", None)
import rmm_rs_plugin
""")
    assert result.returncode == 1
    assert "rmm_rs is older than this extension module: upgrade it" in result.stderr
    result = run("import sys; sys.modules['rmm_rs._rmm'] = None; import rmm_rs_plugin")
    assert result.returncode == 1
    assert "rmm_rs" in result.stderr.splitlines()[-1]
