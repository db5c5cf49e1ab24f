"""What pools and tags hold, for people and for Prometheus."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import rmm_rs
from rmm_rs import mr

MIB = 1 << 20


def tagged() -> tuple[Any, Any]:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), 8 * MIB)
    resource = mr.TaggedResourceAdaptor(pool)
    with rmm_rs.tag("loader"):
        resource.deallocate(resource.allocate(2 * MIB), 2 * MIB)
    return resource, pool


def test_a_summary_has_pools_and_tags() -> None:
    resource, pool = tagged()
    block = pool.allocate(MIB)
    text = rmm_rs.memory_summary(resource)
    pool.deallocate(block, MIB)
    assert max(map(len, text.splitlines())) <= 60, text
    rows = [line.split() for line in text.splitlines()]
    assert ["loader", "0", "B", "2.0", "MiB"] in rows, text
    assert ["live", "1.0", "MiB", "2.0", "MiB"] in rows, text
    assert ["reserved", "8.0", "MiB", "8.0", "MiB"] in rows, text
    assert ["allocations", "2"] in rows, text


def test_the_current_resource_is_summed_up_by_default() -> None:
    assert rmm_rs.memory_summary().startswith("cuda\n")


def test_prometheus_gets_the_counters_of_pools() -> None:
    client = pytest.importorskip("prometheus_client")
    from rmm_rs.integrations.prometheus import Collector

    resource, pool = tagged()
    registry = client.CollectorRegistry()
    registry.register(Collector({"workers": resource}))
    block = pool.allocate(MIB)
    labels = {"pool": "workers"}
    statistics = pool.statistics()
    assert registry.get_sample_value("rmm_pool_live_bytes", labels) == statistics["live_bytes"]
    found = registry.get_sample_value("rmm_pool_allocations_total", labels)
    assert found == statistics["allocations"] == 2
    of_tag = {**labels, "tag": "loader"}
    assert registry.get_sample_value("rmm_tag_peak_bytes", of_tag) == 2 * MIB
    pool.deallocate(block, MIB)
    del resource, pool
    gc.collect()
    assert registry.get_sample_value("rmm_pool_live_bytes", labels) is None, "it is kept alive"
