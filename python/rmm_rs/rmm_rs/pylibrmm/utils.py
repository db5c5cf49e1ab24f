"""Stream arguments."""

from rmm_rs._rmm import as_stream

__all__ = ["as_stream"]
