"""Memory resources whose interface may change."""

from rmm_rs._rmm import CudaAsyncManagedMemoryResource

__all__ = ["CudaAsyncManagedMemoryResource"]
