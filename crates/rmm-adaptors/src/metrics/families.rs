//! The names of the metrics, what they mean, and where their values come from.

use crate::{PoolStatistics, TagUsage};

/// A metric, of which there is one for each set of labels.
pub(super) struct Family<T> {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) value: fn(&T) -> u64,
}

const fn family<T>(name: &'static str, about: &'static str, value: fn(&T) -> u64) -> Family<T> {
    Family { name, about, value }
}

/// Bytes of a pool.
pub(super) const POOL_GAUGES: &[Family<PoolStatistics>] = &[
    family("rmm_pool_live_bytes", "Bytes allocated by the program.", |it| it.live_bytes),
    family("rmm_pool_peak_live_bytes", "The most bytes allocated at once.", |it| {
        it.peak_live_bytes
    }),
    family("rmm_pool_reserved_bytes", "Bytes held from the device.", |it| it.reserved_bytes),
    family("rmm_pool_peak_reserved_bytes", "The most bytes held at once.", |it| {
        it.peak_reserved_bytes
    }),
    family("rmm_pool_cached_bytes", "Bytes in caches of threads.", |it| it.cached_bytes),
    family("rmm_pool_largest_free_bytes", "The largest free block.", |it| it.largest_free_bytes),
    family("rmm_pool_graph_bytes", "Bytes kept for graphs.", |it| it.graph_bytes),
    family("rmm_pool_asleep_bytes", "Bytes without memory while the pool sleeps.", |it| {
        it.asleep_bytes
    }),
];

/// Counts of a pool.
pub(super) const POOL_COUNTERS: &[Family<PoolStatistics>] = &[
    family("rmm_pool_allocations_total", "Allocations.", |it| it.allocations),
    family("rmm_pool_cached_allocations_total", "Those served by caches.", |it| {
        it.cached_allocations
    }),
    family("rmm_pool_failed_allocations_total", "Requests that failed.", |it| {
        it.failed_allocations
    }),
    family("rmm_pool_frees_total", "Frees.", |it| it.frees),
    family("rmm_pool_upstream_allocations_total", "Requests to the device.", |it| {
        it.upstream_allocations
    }),
    family("rmm_pool_upstream_frees_total", "Blocks returned to the device.", |it| {
        it.upstream_frees
    }),
    family("rmm_pool_stream_waits_total", "Waits of a stream for another.", |it| it.stream_waits),
    family("rmm_pool_host_waits_total", "Waits of the host for the device.", |it| it.host_waits),
];

/// Bytes of a tag.
pub(super) const TAG_GAUGES: &[Family<TagUsage>] = &[
    family("rmm_tag_live_bytes", "Bytes of a tag.", |it| it.live_bytes),
    family("rmm_tag_peak_bytes", "The most bytes of a tag at once.", |it| it.peak_bytes),
];
