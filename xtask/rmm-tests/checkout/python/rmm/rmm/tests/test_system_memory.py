"""Memory of the host that devices use directly: alone, below a pool, with headroom."""

import pytest

import rmm

from .support import DTYPES, HAS_PAGEABLE_ACCESS, SIZES, round_trip, use


@pytest.mark.skipif(not HAS_PAGEABLE_ACCESS, reason="no access to pageable memory")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("system", [True, False])
@pytest.mark.parametrize("pool", [True, False])
@pytest.mark.parametrize("headroom", [True, False])
def test_system_memory(dtype, size, system, pool, headroom):
    if not system:
        resource = rmm.mr.CudaMemoryResource()
    elif headroom:
        resource = rmm.mr.SamHeadroomMemoryResource(headroom=1 << 20)
    else:
        resource = rmm.mr.SystemMemoryResource()
    use(rmm.mr.PoolMemoryResource(resource) if pool else resource)
    round_trip(dtype, size)
