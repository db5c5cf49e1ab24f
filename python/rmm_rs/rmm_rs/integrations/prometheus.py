"""Figures of pools and tags for `prometheus_client`::

    import prometheus_client
    from rmm_rs.integrations.prometheus import Collector

    prometheus_client.REGISTRY.register(Collector({"pool": pool}))

They are read when they are scraped, without a driver call; nothing is added to allocations.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from rmm_rs._summary import _stack

__all__ = ["Collector"]

#: Names, what they count, and the statistics that they are.
_GAUGES = {
    "rmm_pool_live_bytes": ("Bytes allocated by the program.", "live_bytes"),
    "rmm_pool_peak_live_bytes": ("The most bytes allocated at once.", "peak_live_bytes"),
    "rmm_pool_reserved_bytes": ("Bytes held from the device.", "reserved_bytes"),
    "rmm_pool_peak_reserved_bytes": ("The most bytes held at once.", "peak_reserved_bytes"),
    "rmm_pool_cached_bytes": ("Bytes in caches of threads.", "cached_bytes"),
    "rmm_pool_largest_free_bytes": ("The largest free block.", "largest_free_bytes"),
    "rmm_pool_graph_bytes": ("Bytes kept for graphs.", "graph_bytes"),
    "rmm_pool_asleep_bytes": ("Bytes without memory while the pool sleeps.", "asleep_bytes"),
}
_COUNTERS = {
    "rmm_pool_allocations": ("Allocations.", "allocations"),
    "rmm_pool_cached_allocations": ("Those served by caches.", "cached_allocations"),
    "rmm_pool_failed_allocations": ("Requests that failed.", "failed_allocations"),
    "rmm_pool_frees": ("Frees.", "frees"),
    "rmm_pool_upstream_allocations": ("Requests to the device.", "upstream_allocations"),
    "rmm_pool_upstream_frees": ("Blocks returned to the device.", "upstream_frees"),
    "rmm_pool_stream_waits": ("Waits of a stream for another.", "stream_waits"),
    "rmm_pool_host_waits": ("Waits of the host for the device.", "host_waits"),
}
_OF_TAGS = {
    "rmm_tag_live_bytes": ("Bytes of a tag.", "current_bytes"),
    "rmm_tag_peak_bytes": ("The most bytes of a tag at once.", "peak_bytes"),
}


class Collector:
    """Collects the figures of resources, by name: those of each pool in their stacks, and of each
    tag where there is a `TaggedResourceAdaptor`. It keeps no resource alive.

    Parameters
    ----------
    resources : mapping of str to DeviceMemoryResource
    """

    def __init__(self, resources: Mapping[str, Any]) -> None:
        self._resources = {name: weakref.ref(resource) for name, resource in resources.items()}

    def describe(self) -> list[Any]:
        """Nothing: so a registry does not collect when this is registered."""
        return []

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        gauges = {
            name: GaugeMetricFamily(name, about, labels=["pool"])
            for name, (about, _) in _GAUGES.items()
        }
        counters = {
            name: CounterMetricFamily(name, about, labels=["pool"])
            for name, (about, _) in _COUNTERS.items()
        }
        tags = {
            name: GaugeMetricFamily(name, about, labels=["pool", "tag"])
            for name, (about, _) in _OF_TAGS.items()
        }
        for label, reference in self._resources.items():
            for part in _stack(reference()):
                if hasattr(part, "usage"):
                    for tag, held in part.usage().items():
                        for name, (_, key) in _OF_TAGS.items():
                            tags[name].add_metric([label, tag], held[key])
                elif hasattr(part, "statistics"):
                    counts = part.statistics()
                    for table, families in ((_GAUGES, gauges), (_COUNTERS, counters)):
                        for name, (_, key) in table.items():
                            families[name].add_metric([label], counts[key])
                    break
        yield from (*gauges.values(), *counters.values(), *tags.values())
