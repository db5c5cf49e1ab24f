"""Arrays of Numba in memory of every configuration that `reinitialize` makes."""

import pytest

import rmm

from .support import DTYPES, SIZES, round_trip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_plain(dtype, size):
    round_trip(dtype, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("managed", [False, True])
@pytest.mark.parametrize("pool", [False, True])
def test_modes(dtype, size, managed, pool):
    rmm.reinitialize(pool_allocator=pool, managed_memory=managed)
    assert rmm.is_initialized()
    round_trip(dtype, size)
