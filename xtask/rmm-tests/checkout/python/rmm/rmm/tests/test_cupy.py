"""CuPy's arrays in our memory."""

import pytest

import rmm

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")


def test_an_array_is_of_the_current_resource(counted):
    from rmm.allocators.cupy import rmm_cupy_allocator

    cupy.cuda.set_allocator(rmm_cupy_allocator)
    array = cupy.arange(1000)
    assert isinstance(array.data.mem._owner, rmm.DeviceBuffer)
    assert counted.allocation_counts.current_count >= 1
    assert int(array.sum()) == 499500
