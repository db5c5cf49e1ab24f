"""The place of RMM's C++ classes. Only the levels of its logger are here."""

from rmm_rs.librmm import _logger

__all__ = ["_logger"]
