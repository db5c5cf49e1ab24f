"""A plug-in of pytest that writes a line for each test when it begins and when it ends, so that
the results of a process that dies are not lost."""

from __future__ import annotations

import json
import os
from typing import Any


def _write(**fields: Any) -> None:
    with open(os.environ["RESULT_LINES"], "a") as file:
        file.write(json.dumps(fields) + "\n")


def _short(report: Any) -> str:
    """The last line of a traceback that says what was raised."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    lines = [line[2:].strip() for line in str(report.longrepr).splitlines() if line[:2] == "E "]
    return " | ".join(line for line in lines if line)[:400] or str(report.longrepr)[-200:]


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(begin=nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        _write(end=report.nodeid, outcome="failed", why=_short(report), seconds=report.duration)
    elif report.skipped:
        _write(end=report.nodeid, outcome="skipped", why=_short(report), seconds=report.duration)
    elif report.when == "call":
        _write(end=report.nodeid, outcome="passed", why="", seconds=report.duration)


def pytest_collection_finish(session: Any) -> None:
    if session.config.option.collectonly:
        _write(collected=[item.nodeid for item in session.items])


def pytest_sessionstart() -> None:
    """A process with another allocator than the wanted one must not give results."""
    import torch

    found, wanted = torch.cuda.memory.get_allocator_backend(), os.environ["EXPECTED_BACKEND"]
    if found != wanted:
        raise RuntimeError(f"PyTorch's allocator is {found}, not {wanted}")
