"""Pages that show memory: of a resource in use, or of a recorded log. Not in RMM."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rmm_rs import _rmm
from rmm_rs.mr import DeviceMemoryResource, get_current_device_resource


class ReportPath(type(Path())):  # type: ignore[misc]
    """Where a page is. A notebook shows the page itself."""

    def _repr_html_(self) -> str:
        from html import escape

        page = escape(self.read_text(encoding="utf-8"), quote=True)
        # Of its own origin, so that it can do nothing to the notebook.
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:900px;border:0" '
            f'title="Memory report" srcdoc="{page}"></iframe>'
        )


def _is_in_notebook() -> bool:
    """Whether what is returned is shown by a notebook."""
    import sys

    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return shell is not None and hasattr(shell, "kernel")


def report(
    source: DeviceMemoryResource | str | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    resources: str | Iterable[str] = ("pool",),
    repeat: int = 2,
) -> ReportPath:
    """Writes a page that shows memory, and returns where it is; a notebook shows the page.

    The page answers questions about memory in words, then draws every block by address over time.
    It is one file: it can be mailed, opens without a network, and runs no script but its own.

    Parameters
    ----------
    source : DeviceMemoryResource, str or path, optional
        A resource: its stack, and a map of its pool's heap, now. A path: a log of
        `LoggingResourceAdaptor`, plain or compressed, which is replayed on the current device, as
        by the program `rmm replay`. By default the current device's resource.
    path : str or path, optional
        Where to write. Without it, a new temporary file is written and, outside of a notebook,
        opened in a browser.
    resources : str or iterable of str
        What a log is replayed against: names such as ``"pool"``, ``"cuda-async"``, ``"cuda"``, or
        stacks such as ``"statistics(pool(cuda, max=8GiB))"``. With none, the page shows the log
        alone, with the addresses that were recorded.
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
        return ReportPath(written.resolve())
    # A quarter of the time of the package's import, which few programs need.
    import tempfile

    handle, name = tempfile.mkstemp(prefix="rmm-report-", suffix=".html")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(page)
    shown = ReportPath(name)
    if not _is_in_notebook():
        import webbrowser

        webbrowser.open(shown.as_uri())
    return shown
