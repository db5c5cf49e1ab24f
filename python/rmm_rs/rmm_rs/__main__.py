"""Runs a program under the alias: ``python -m rmm_rs [-m module | -c command | program.py] ...``.

The program is the module `__main__`, as for Python. The processes that it starts have the alias too.
"""

from __future__ import annotations

import builtins
import io
import pkgutil
import runpy
import sys
import types
from typing import Any

#: This module, whose name the program takes.
_OWN = sys.modules[__name__]


def _main(**attributes: Any) -> dict[str, Any]:
    """The names of a new module `__main__`, which stays to the end of the process."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __spec__=None, **attributes)
    sys.modules["__main__"] = module
    return module.__dict__


def _code(path: str) -> Any:
    with io.open_code(path) as file:
        compiled = pkgutil.read_code(file)
    if compiled is not None:
        return compiled
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec")


def _run_module(name: str, **options: bool) -> None:
    _main()
    run: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    run(name, **options)


def main() -> None:
    """Runs what the arguments say, as Python would, with `rmm` meaning this package."""
    import rmm_rs.as_rmm  # noqa: F401
    from rmm_rs.integrations import processes

    processes.reach()

    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.exit(__doc__)
    first, rest = arguments[0], arguments[1:]
    if first in ("-m", "-c") and not rest:
        sys.exit(f"{first} needs an argument")
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), _main())
    elif first == "-m":
        sys.argv = ["-m", *rest[1:]]
        sys.path.insert(0, "")
        _run_module(rest[0])
    elif pkgutil.get_importer(first) is not None:
        # A folder or an archive, with a `__main__.py`.
        sys.argv = arguments
        sys.path.insert(0, first)
        _run_module("__main__", alter_argv=False)
    else:
        sys.argv = arguments
        sys.path.insert(0, first.rpartition("/")[0] or ".")
        exec(_code(first), _main(__file__=first, __cached__=None))


if __name__ == "__main__":
    main()
