"""What this package asks of CUDA."""

from rmm_rs._cuda import gpu

__all__ = ["gpu"]
