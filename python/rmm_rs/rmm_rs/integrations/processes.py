"""The alias `rmm` in the processes that a program starts, such as workers of Dask.

A process that is started by another is a new interpreter, in which nothing has been imported. The
folder `PATH` holds one module, `rmm`, which installs the alias as it is imported; an interpreter
looks into the folders of the environment variable ``PYTHONPATH`` before its own, so the real RMM,
if it is installed too, is not found first::

    PYTHONPATH=$(python -m rmm_rs.integrations.processes) dask cuda worker ...

`reach` sets the variable for the processes that this one starts from now on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: The folder for ``PYTHONPATH``.
PATH = str(Path(__file__).resolve().parent / "path")


def reach() -> None:
    """Processes that this one starts import this package as `rmm`.

    Without effect from the second call on.

    Examples
    --------
    >>> import os
    >>> from rmm_rs.integrations import processes
    >>> processes.reach()
    >>> os.environ["PYTHONPATH"].split(os.pathsep)[0] == processes.PATH
    True
    """
    # Processes that `multiprocessing` spawns get this path and not that of the variable.
    if PATH not in sys.path:
        sys.path.insert(0, PATH)
    folders = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if PATH not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([PATH, *folders])


if __name__ == "__main__":
    print(PATH)
