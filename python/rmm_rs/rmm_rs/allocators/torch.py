"""An allocator for PyTorch.

::

    import torch
    from rmm_rs.allocators.torch import rmm_torch_allocator
    torch.cuda.memory.change_current_allocator(rmm_torch_allocator)

Memory comes from the resource that is the device's current one at that moment, and goes back to it.
"""

from __future__ import annotations

from typing import Any


def _make() -> Any:
    """The allocator, or None without a PyTorch that has a GPU."""
    try:
        from torch.cuda import is_available
        from torch.cuda.memory import CUDAPluggableAllocator
    except (ImportError, OSError):
        # `OSError`: PyTorch finds no library of the CUDA toolkit.
        return None
    if not is_available():
        return None
    import ctypes

    from rmm_rs import _rmm

    # The library is loaded already: this one path makes PyTorch find the same one.
    path = _rmm.__file__
    made = CUDAPluggableAllocator(
        path, alloc_fn_name="rmm_rs_torch_allocate", free_fn_name="rmm_rs_torch_deallocate"
    )
    library = ctypes.CDLL(path)

    def address(name: str) -> int | None:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value

    functions = made.allocator()
    # Without it memory is reused under the work of streams that `Tensor.record_stream` announced.
    functions.set_record_stream_fn(address("rmm_rs_torch_record_stream"))
    functions.set_reset_fn(address("rmm_rs_torch_reset"))
    functions.set_memory_fraction_fn(address("rmm_rs_torch_set_memory_fraction"))
    return made


rmm_torch_allocator = _make()
