"""The levels of the debug log."""

from enum import IntEnum


class level_enum(IntEnum):
    """How important a message is, or from where on messages are logged."""

    trace = 0
    debug = 1
    info = 2
    warn = 3
    error = 4
    critical = 5
    off = 6
    n_levels = 7
