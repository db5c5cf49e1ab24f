"""Pools of streams."""

from rmm_rs._rmm import CudaStreamPool

__all__ = ["CudaStreamPool"]
