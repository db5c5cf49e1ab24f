"""Refuses an extension module that asks RMM's library for what it does not have.

The module is linked with undefined symbols allowed, since Python's come from the interpreter: what RMM
lacks would be seen at the first import only, as a mangled name.
"""

from __future__ import annotations

import subprocess
import sys


def symbols(nm: str, kind: str, path: str) -> set[str]:
    """The dynamic symbols of a library as C++ names, without their versions."""
    command = [nm, "--dynamic", "--demangle", kind, path]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    # An address, if there is one, a letter, and the name, which can have spaces in it.
    return {line[16:].strip()[2:].split("@", 1)[0] for line in lines}


def main(nm: str, module: str, library: str, release: str) -> str | None:
    """What is missing, as text; nothing if all is there."""
    needed = {name for name in symbols(nm, "--undefined-only", module) if "rmm::" in name}
    missing = sorted(needed - symbols(nm, "--defined-only", library))
    if not missing:
        return None
    names = "\n  ".join(missing)
    return f"error: the library of RMM {release}, {library}, has no\n  {names}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
