"""Memory resources whose interface may change."""

from rmm_rs.pylibrmm.memory_resource.experimental import (
    CudaAsyncManagedMemoryResource,
)

__all__ = ["CudaAsyncManagedMemoryResource"]
