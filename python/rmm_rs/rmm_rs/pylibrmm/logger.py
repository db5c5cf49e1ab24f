"""The debug log: a file that ``RMM_DEBUG_LOG_FILE`` names, else the standard error.

The first line of a process truncates the file. Wrong frees are in the log as errors, and what a
``TrackingResourceAdaptor`` still has when it ends as a warning; requests that a pool refuses are, as
errors, in the file only: the exception says it, too.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from typing import TextIO

from rmm_rs.librmm._logger import level_enum

__all__ = [
    "flush_logger",
    "get_flush_level",
    "get_logging_level",
    "level_enum",
    "set_flush_level",
    "set_logging_level",
    "should_log",
]

# The collector may run while a line is written, and what it drops may log.
_lock = threading.RLock()
_level = level_enum.info
_flush_level = level_enum.off
_file: TextIO | None = None


def _checked(level: level_enum) -> level_enum:
    if not isinstance(level, level_enum):
        raise TypeError("level must be an instance of the level_enum enum")
    return level


def _warn_if_not_logged(level: level_enum) -> None:
    if not should_log(level):
        warnings.warn(
            f"RMM will not log level_enum.{level.name}. The logging level is {_level.name}.",
            stacklevel=3,
        )


def should_log(level: level_enum) -> bool:
    """Whether a message of this level is logged."""
    return _checked(level) >= _level


def set_logging_level(level: level_enum) -> None:
    """Sets the level from which on messages are logged."""
    global _level
    _level = _checked(level)
    _warn_if_not_logged(level)


def get_logging_level() -> level_enum:
    """The level from which on messages are logged."""
    return _level


def flush_logger() -> None:
    """Writes what was logged to the file."""
    with _lock:
        (_file or sys.stderr).flush()


def set_flush_level(level: level_enum) -> None:
    """Sets the level from which on each message is written at once."""
    global _flush_level
    _flush_level = _checked(level)
    _warn_if_not_logged(level)


def get_flush_level() -> level_enum:
    """The level from which on each message is written at once."""
    return _flush_level


def _log(level: level_enum, text: str) -> None:
    """Logs a message."""
    global _file
    if not should_log(level) or level >= level_enum.off:
        return
    with _lock:
        if _file is None and (path := os.environ.get("RMM_DEBUG_LOG_FILE")):
            _file = open(path, "w", encoding="utf-8")  # noqa: SIM115  for the process
        stream = _file or sys.stderr
        if stream is None:
            return
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        fraction = int(now % 1 * 1e6)
        thread = threading.get_native_id()
        line = f"[{thread:6}][{clock}:{fraction:06}][{level.name:<6}] {text}\n"
        stream.write(line)
        if level >= _flush_level:
            stream.flush()


def _log_refusal(text: str) -> None:
    """Logs a request that a pool has refused, if there is a file: the caller has the exception."""
    if os.environ.get("RMM_DEBUG_LOG_FILE"):
        _log(level_enum.error, text)
