"""What `rmm_rs.torch` uses of PyTorch, over the libraries c10 of a real one.

`STAND_IN_LIBRARIES` has their paths, and `STAND_IN_VERSION` the version to show.
"""

from __future__ import annotations

import ctypes
import os

from torch import cuda as cuda

__version__ = os.environ["STAND_IN_VERSION"]


class OutOfMemoryError(RuntimeError):
    """As PyTorch's."""


def allocate(size: int) -> int:
    """Memory of the current allocator."""
    pointer = cuda.library.stand_in_allocate(ctypes.c_size_t(size))
    if pointer is None:
        raise RuntimeError("nothing was allocated")
    return int(pointer)


def free(pointer: int) -> None:
    """Frees it."""
    cuda.library.stand_in_free(ctypes.c_void_p(pointer))


if os.environ.get("STAND_IN_AUTOLOAD"):
    # As `import torch` calls the entry points of `torch.backends`.
    import rmm_rs_torch

    rmm_rs_torch.install_if_wanted()
