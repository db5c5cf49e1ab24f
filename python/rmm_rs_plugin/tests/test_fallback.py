"""`rmm_rs.fallback` on the real RMM."""

from __future__ import annotations

import pytest
import rmm
import rmm.mr
import rmm_rs.mr
from rmm.pylibrmm.stream import Stream
from rmm_rs.fallback import callback_resource

MIB = 1 << 20


@pytest.mark.filterwarnings("ignore:every allocation:RuntimeWarning")
def test_the_real_rmm_allocates_by_callbacks() -> None:
    pool = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.CudaMemoryResource(), "1MiB", "4MiB")
    counting = rmm.mr.StatisticsResourceAdaptor(callback_resource(pool))
    rmm.mr.set_current_device_resource(counting)
    buffers = [rmm.DeviceBuffer(size=1000), rmm.DeviceBuffer(size=3000, stream=Stream())]
    assert counting.allocation_counts.current_bytes == 4000
    assert pool.statistics()["live_bytes"] >= 4000
    with pytest.raises(MemoryError, match="out_of_memory"):
        rmm.DeviceBuffer(size=5 * MIB)
    del buffers
    assert pool.statistics()["live_bytes"] == 0
