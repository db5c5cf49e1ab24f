//! Figures of pools and tags for the crate `metrics`, read when they are scraped.
//!
//! Call [`sample`] before the recorder renders what it has: in the handler of a scrape, or at an
//! interval. Nothing is added to allocations. Pools are found as [`monitor`] says.
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `rmm_pool_live_bytes` | gauge | `pool`, `device` |
//! | `rmm_pool_peak_live_bytes` | gauge | `pool`, `device` |
//! | `rmm_pool_reserved_bytes` | gauge | `pool`, `device` |
//! | `rmm_pool_peak_reserved_bytes` | gauge | `pool`, `device` |
//! | `rmm_pool_cached_bytes` | gauge | `pool`, `device` |
//! | `rmm_pool_largest_free_bytes` | gauge | `pool`, `device` |
//! | `rmm_pool_graph_bytes` | gauge | `pool`, `device` |
//! | `rmm_pool_asleep_bytes` | gauge | `pool`, `device` |
//! | `rmm_pool_allocations_total` | counter | `pool`, `device` |
//! | `rmm_pool_cached_allocations_total` | counter | `pool`, `device` |
//! | `rmm_pool_failed_allocations_total` | counter | `pool`, `device` |
//! | `rmm_pool_frees_total` | counter | `pool`, `device` |
//! | `rmm_pool_upstream_allocations_total` | counter | `pool`, `device` |
//! | `rmm_pool_upstream_frees_total` | counter | `pool`, `device` |
//! | `rmm_pool_stream_waits_total` | counter | `pool`, `device` |
//! | `rmm_pool_host_waits_total` | counter | `pool`, `device` |
//! | `rmm_tag_live_bytes` | gauge | `pool`, `device`, `tag` |
//! | `rmm_tag_peak_bytes` | gauge | `pool`, `device`, `tag` |
//!
//! What each means is said at [`PoolStatistics`](crate::PoolStatistics) and
//! [`TagUsage`](crate::TagUsage). The gauges of a pool that is
//! gone are set to 0 once; its counters stay.

#![forbid(unsafe_code)]

mod families;

use std::sync::{Arc, Mutex};

use metrics::{Key, Label, Level, Metadata, Unit, with_recorder};
use rmm_core::fork;

use crate::monitor::{self, PoolReading, TagReading};
use families::{POOL_COUNTERS, POOL_GAUGES, TAG_GAUGES};

static METADATA: Metadata<'static> =
    Metadata::new("rmm", Level::INFO, Some(env!("CARGO_CRATE_NAME")));

/// The keys of what was read at the last call: they are hashed once.
static KEYS: Mutex<Keys> = Mutex::new(Keys { pools: Vec::new(), tags: Vec::new() });

struct Keys {
    pools: Vec<PoolKeys>,
    tags: Vec<TagKeys>,
}

struct PoolKeys {
    pool: Arc<str>,
    device: Option<usize>,
    gauges: Vec<Key>,
    counters: Vec<Key>,
    is_there: bool,
}

struct TagKeys {
    pool: Arc<str>,
    device: Option<usize>,
    tag: crate::Tag,
    gauges: Vec<Key>,
    is_there: bool,
}

/// Gives the recorder what each metric means, and its unit. Call it once, after a recorder is
/// installed; metrics work without it.
pub fn describe() {
    with_recorder(|recorder| {
        for family in POOL_GAUGES {
            recorder.describe_gauge(family.name.into(), Some(Unit::Bytes), family.about.into());
        }
        for family in TAG_GAUGES {
            recorder.describe_gauge(family.name.into(), Some(Unit::Bytes), family.about.into());
        }
        for family in POOL_COUNTERS {
            recorder.describe_counter(family.name.into(), Some(Unit::Count), family.about.into());
        }
    });
}

/// Reads all pools and tags, and gives their figures to the recorder.
///
/// It reads as [`monitor::read`] does, and costs a few microseconds for each pool.
pub fn sample() {
    let reading = monitor::read();
    let mut keys = fork::lock(&KEYS);
    keys.pools.iter_mut().for_each(|keys| keys.is_there = false);
    keys.tags.iter_mut().for_each(|keys| keys.is_there = false);
    with_recorder(|recorder| {
        let gauge =
            |key: &Key, value: u64| recorder.register_gauge(key, &METADATA).set(to_f64(value));
        for pool in &reading.pools {
            let keys = keys.of_pool(pool);
            for (key, family) in keys.gauges.iter().zip(POOL_GAUGES) {
                gauge(key, (family.value)(&pool.statistics));
            }
            for (key, family) in keys.counters.iter().zip(POOL_COUNTERS) {
                let value = (family.value)(&pool.statistics);
                recorder.register_counter(key, &METADATA).absolute(value);
            }
        }
        for tag in &reading.tags {
            let keys = keys.of_tag(tag);
            for (key, family) in keys.gauges.iter().zip(TAG_GAUGES) {
                gauge(key, (family.value)(&tag.usage));
            }
        }
        let pools = keys.pools.iter().filter(|keys| !keys.is_there).map(|keys| &keys.gauges);
        let tags = keys.tags.iter().filter(|keys| !keys.is_there).map(|keys| &keys.gauges);
        pools.chain(tags).flatten().for_each(|key| gauge(key, 0));
    });
    keys.pools.retain(|keys| keys.is_there);
    keys.tags.retain(|keys| keys.is_there);
}

impl Keys {
    fn of_pool(&mut self, reading: &PoolReading) -> &PoolKeys {
        let (pool, device) = (&reading.pool, reading.device);
        let known = self.pools.iter().position(|keys| keys.pool == *pool && keys.device == device);
        let index = known.unwrap_or_else(|| {
            let labels = labels(pool, device, None);
            self.pools.push(PoolKeys {
                pool: pool.clone(),
                device,
                gauges: POOL_GAUGES.iter().map(|family| key(family.name, &labels)).collect(),
                counters: POOL_COUNTERS.iter().map(|family| key(family.name, &labels)).collect(),
                is_there: true,
            });
            self.pools.len() - 1
        });
        self.pools[index].is_there = true;
        &self.pools[index]
    }

    fn of_tag(&mut self, reading: &TagReading) -> &TagKeys {
        let (pool, device, tag) = (&reading.pool, reading.device, reading.usage.tag);
        let is_same =
            |keys: &TagKeys| keys.tag == tag && keys.pool == *pool && keys.device == device;
        let index = self.tags.iter().position(is_same).unwrap_or_else(|| {
            let labels = labels(pool, device, Some(tag.name()));
            self.tags.push(TagKeys {
                pool: pool.clone(),
                device,
                tag,
                gauges: TAG_GAUGES.iter().map(|family| key(family.name, &labels)).collect(),
                is_there: true,
            });
            self.tags.len() - 1
        });
        self.tags[index].is_there = true;
        &self.tags[index]
    }
}

fn labels(pool: &Arc<str>, device: Option<usize>, tag: Option<&'static str>) -> Vec<Label> {
    let device = device.map_or_else(String::new, |device| device.to_string());
    let mut labels = vec![Label::new("pool", pool.to_string()), Label::new("device", device)];
    labels.extend(tag.map(|tag| Label::from_static_parts("tag", tag)));
    labels
}

fn key(name: &'static str, labels: &[Label]) -> Key {
    Key::from_parts(name, labels.to_vec())
}

#[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB")]
fn to_f64(value: u64) -> f64 {
    value as f64
}
