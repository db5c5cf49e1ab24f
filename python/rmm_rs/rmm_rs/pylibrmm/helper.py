"""Sizes as text."""

from rmm_rs._rmm import parse_bytes

__all__ = ["parse_bytes"]
