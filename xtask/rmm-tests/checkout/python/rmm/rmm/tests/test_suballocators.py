"""Pools, arenas, blocks of a fixed size, and bins."""

import pytest

import rmm

from .support import DTYPES, HAS_PAGEABLE_ACCESS, SIZES, round_trip, use

UPSTREAMS = [rmm.mr.CudaMemoryResource, rmm.mr.ManagedMemoryResource]
if HAS_PAGEABLE_ACCESS:
    UPSTREAMS.append(rmm.mr.SystemMemoryResource)
    UPSTREAMS.append(lambda: rmm.mr.SamHeadroomMemoryResource(headroom=1 << 20))

arrays = [
    pytest.mark.parametrize("dtype", DTYPES),
    pytest.mark.parametrize("size", SIZES),
]


def of_arrays(test):
    for mark in arrays:
        test = mark(test)
    return test


@of_arrays
def test_a_pool(dtype, size):
    upstream = rmm.mr.CudaMemoryResource()
    resource = use(
        rmm.mr.PoolMemoryResource(upstream, initial_pool_size="1MiB", maximum_pool_size="64MiB")
    )
    assert resource.upstream_mr is upstream
    round_trip(dtype, size)


def test_a_pool_has_at_least_its_first_size():
    resource = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size="4MiB")
    assert resource.pool_size() == 1 << 22


def test_a_pool_of_no_first_size_grows():
    resource = use(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), "0", "1GiB"))
    assert resource.pool_size() == 0
    kept = rmm.DeviceBuffer(size=1000)
    assert resource.pool_size() >= 1000
    assert kept.size == 1000


@pytest.mark.parametrize("sizes", [{"initial_pool_size": "2MiB", "maximum_pool_size": "1MiB"}])
def test_a_first_size_above_the_largest_is_refused(sizes):
    with pytest.raises(RuntimeError, match="Initial pool size exceeds the maximum pool size"):
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), **sizes)


def test_a_full_pool_raises():
    use(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 1 << 20, 1 << 20))
    kept = rmm.DeviceBuffer(size=1 << 19)
    with pytest.raises(MemoryError, match="std::bad_alloc.*"):
        rmm.DeviceBuffer(size=1 << 20)
    assert kept.nbytes == 1 << 19


@of_arrays
@pytest.mark.parametrize(
    "upstream",
    [
        rmm.mr.CudaMemoryResource,
        rmm.mr.ManagedMemoryResource,
        lambda: rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 1 << 20),
    ],
)
def test_an_arena(dtype, size, upstream):
    use(rmm.mr.ArenaMemoryResource(upstream()))
    round_trip(dtype, size)


@pytest.mark.parametrize("dump", [False, True])
def test_an_arena_of_some_size(dump):
    use(rmm.mr.ArenaMemoryResource(rmm.mr.CudaMemoryResource(), "64MiB", dump))
    round_trip("u1", 1 << 20)
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=1 << 30)


@of_arrays
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_blocks_of_a_fixed_size(dtype, size, upstream):
    use(rmm.mr.FixedSizeMemoryResource(upstream(), block_size=1 << 20, blocks_to_preallocate=128))
    round_trip(dtype, size)


@of_arrays
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_bins(dtype, size, upstream):
    base = upstream()
    resource = rmm.mr.BinningMemoryResource(base, 18, 22)
    small, large = rmm.mr.FixedSizeMemoryResource(base, 1 << 10), rmm.mr.CudaMemoryResource()
    resource.add_bin(1 << 10, small)
    resource.add_bin(1 << 23, large)
    assert [small, large] == resource.bin_mrs
    use(resource)
    round_trip(dtype, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", [(), (18, 20), (18, -1)])
def test_bins_of_a_range(dtype, given):
    use(rmm.mr.BinningMemoryResource(rmm.mr.CudaMemoryResource(), *given))
    round_trip(dtype, 128)


@pytest.mark.parametrize("exponents", [(128, 130), (18, 1 << 9)])
def test_exponents_have_eight_bits(exponents):
    with pytest.raises(OverflowError):
        rmm.mr.BinningMemoryResource(rmm.mr.CudaMemoryResource(), *exponents)


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_pinned_memory(dtype, size, pool):
    resource = rmm.mr.PinnedHostMemoryResource()
    if pool:
        resource = rmm.mr.PoolMemoryResource(
            resource, initial_pool_size="1MiB", maximum_pool_size="64MiB"
        )
    use(resource)
    round_trip(dtype, size)


@pytest.mark.parametrize(
    "make",
    [
        rmm.mr.PoolMemoryResource,
        rmm.mr.ArenaMemoryResource,
        rmm.mr.FixedSizeMemoryResource,
        rmm.mr.BinningMemoryResource,
        rmm.mr.StatisticsResourceAdaptor,
        rmm.mr.TrackingResourceAdaptor,
        rmm.mr.PrefetchResourceAdaptor,
        lambda upstream: rmm.mr.LimitingResourceAdaptor(upstream, 1),
        lambda upstream: rmm.mr.FailureCallbackResourceAdaptor(upstream, print),
    ],
)
def test_there_is_no_adaptor_of_nothing(make):
    with pytest.raises(Exception, match="must not be None"):
        make(None)
