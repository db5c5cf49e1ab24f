//! The figures as metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use rmm_adaptors::metrics::{describe, sample};

use super::*;

/// Keeps the last value of each metric, by its name and labels.
#[derive(Debug, Default)]
struct Recorded {
    values: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    described: Mutex<BTreeMap<String, Option<Unit>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorded {
    fn slot(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        locked(&self.values).entry(name).or_default().clone()
    }

    fn value(&self, name: &str) -> Option<u64> {
        Some(locked(&self.values).get(name)?.load(Ordering::Relaxed))
    }

    /// Gauges are numbers with a fraction, kept as their bits.
    fn gauge(&self, name: &str) -> Option<f64> {
        self.value(name).map(f64::from_bits)
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        locked(&self.described).insert(name.as_str().to_owned(), unit);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        locked(&self.described).insert(name.as_str().to_owned(), unit);
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.slot(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.slot(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_sample_has_the_counters_of_pools_and_tags() -> Result<(), Error> {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    let tagged = TaggedResourceAdaptor::new(pool(4 * MIB)?);
    monitor::register("sampled", &tagged);
    let other = tagged.allocate_sync(layout(1000))?;
    let block = {
        let _scope = Tag::named("loader").enter();
        tagged.allocate_sync(layout(3 << 20))?
    };
    tagged.allocate_sync(layout(1 << 40)).expect_err("no device has so much");
    let recorded = Recorded::default();
    with_local_recorder(&recorded, sample);
    let gauge = |name: &str| recorded.gauge(&format!("{name}{{pool=sampled,device=0}}"));
    let counter = |name: &str| recorded.value(&format!("{name}{{pool=sampled,device=0}}"));
    assert_eq!(gauge("rmm_pool_live_bytes"), Some(3_146_752.0));
    assert_eq!(gauge("rmm_pool_reserved_bytes"), Some(4_194_304.0));
    assert_eq!(gauge("rmm_pool_largest_free_bytes"), Some(1_047_552.0));
    assert_eq!(counter("rmm_pool_allocations_total"), Some(2));
    assert_eq!(counter("rmm_pool_failed_allocations_total"), Some(1));
    assert_eq!(counter("rmm_pool_upstream_allocations_total"), Some(1));
    let of_tag = "rmm_tag_live_bytes{pool=sampled,device=0,tag=loader}";
    assert_eq!(recorded.gauge(of_tag), Some(3_145_728.0));

    free(&tagged, block, 3 << 20);
    with_local_recorder(&recorded, sample);
    assert_eq!(gauge("rmm_pool_live_bytes"), Some(1024.0));
    assert_eq!(gauge("rmm_pool_peak_live_bytes"), Some(3_146_752.0));
    assert_eq!(counter("rmm_pool_frees_total"), Some(1));
    assert_eq!(recorded.gauge(of_tag), Some(0.0));

    // What is gone holds nothing, and has done what it did.
    free(&tagged, other, 1000);
    drop(tagged);
    with_local_recorder(&recorded, sample);
    assert_eq!(gauge("rmm_pool_reserved_bytes"), Some(0.0));
    assert_eq!(recorded.gauge(&of_tag.replace("live", "peak")), Some(0.0));
    assert_eq!(counter("rmm_pool_allocations_total"), Some(2));
    Ok(())
}

#[test]
fn metrics_are_described_under_the_names_that_are_sampled() -> Result<(), Error> {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    let tagged = TaggedResourceAdaptor::new(pool(MIB)?);
    monitor::register("described", &tagged);
    free(&tagged, tagged.allocate_sync(layout(1))?, 1);
    let recorded = Recorded::default();
    with_local_recorder(&recorded, || {
        describe();
        sample();
    });
    let described = recorded.described.into_inner().unwrap();
    let mut names: Vec<String> = recorded.values.into_inner().unwrap().into_keys().collect();
    for name in &mut names {
        name.truncate(name.find('{').unwrap());
    }
    names.dedup();
    assert_eq!(described.keys().cloned().collect::<Vec<_>>(), names);
    assert!(described.iter().all(|(name, unit)| {
        let bytes = name.ends_with("_bytes");
        *unit == Some(if bytes { Unit::Bytes } else { Unit::Count })
            && (bytes || name.ends_with("_total"))
    }));
    // The documentation has the same table.
    let source = include_str!("../../src/metrics.rs");
    let documented =
        source.lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    let mut documented: Vec<&str> = documented.collect();
    documented.sort_unstable();
    assert_eq!(documented, names);
    Ok(())
}
