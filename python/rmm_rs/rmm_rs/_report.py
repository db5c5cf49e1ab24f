"""Pages that show memory: of a resource in use, or of a recorded log. Not in RMM."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rmm_rs import _rmm
from rmm_rs.mr import DeviceMemoryResource, get_current_device_resource


def report(
    source: DeviceMemoryResource | str | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    resources: str | Iterable[str] = ("pool",),
    repeat: int = 2,
) -> Path:
    """Writes a page that shows memory, and returns where it is.

    The page is one file without scripts: it can be mailed, and opens without a network.

    Parameters
    ----------
    source : DeviceMemoryResource, str or path, optional
        A resource: its stack, and a map of its pool's heap, now. A path: a log of
        `LoggingResourceAdaptor`, plain or compressed, which is replayed on the current device, as
        by the program `rmm replay`. By default the current device's resource.
    path : str or path, optional
        Where to write. Without it, a new temporary file is written and opened in a browser.
    resources : str or iterable of str
        What a log is replayed against: names such as ``"pool"``, ``"cuda-async"``, ``"cuda"``, or
        stacks such as ``"statistics(pool(cuda, max=8GiB))"``.
    repeat : int
        How often a log is replayed: the first time on a fresh resource.

    Raises
    ------
    OSError
        If the log cannot be opened, or the page cannot be written.
    ValueError
        If the log or the name of a resource cannot be read.
    """
    if source is None:
        source = get_current_device_resource()
    if isinstance(source, DeviceMemoryResource):
        page = _rmm._page_of_resource(source)
    else:
        names = [resources] if isinstance(resources, str) else list(resources)
        page = _rmm._page_of_log(os.fspath(source), names, repeat)
    if path is not None:
        written = Path(path)
        written.write_text(page, encoding="utf-8")
        return written.resolve()
    # A quarter of the time of the package's import, which few programs need.
    import tempfile
    import webbrowser

    handle, name = tempfile.mkstemp(prefix="rmm-report-", suffix=".html")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(page)
    written = Path(name)
    webbrowser.open(written.as_uri())
    return written
