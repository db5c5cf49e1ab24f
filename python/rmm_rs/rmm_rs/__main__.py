"""Runs a program under the alias: ``python -m rmm_rs [-m module | -c command | program.py] ...``.

The processes that it starts have the alias too.
"""

from __future__ import annotations

import runpy
import sys


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
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif first == "-m":
        sys.argv = rest
        sys.path.insert(0, "")
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, first.rpartition("/")[0] or ".")
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    main()
