//! The workloads that `protocol` times: each workload prints its figures of one allocator.
//!
//! `peers/workloads.hpp` does the same for the allocators of others.

mod adaptors;
mod bench;
mod bursts;
mod copies;
#[cfg(feature = "cudarc")]
mod cudarc;
mod defaults;
mod extent;
mod foreign;
mod growth;
mod latency;
mod migrate;
mod multi_stream;
mod pairs;
mod priming;
mod random;
mod recorded;
mod refusals;
mod replay;
mod sleep;
mod threads;
mod vector;

use crate::allocators::{Kind, Serves};
use crate::outcome::Outcome;

pub use bench::Bench;
pub use extent::Extent;
pub use recorded::Recorded;

/// A workload by its name on the command line.
#[derive(Debug)]
pub struct Workload {
    /// The name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    run: fn(&mut Bench<'_>) -> Outcome,
    for_pairs: bool,
    for_little: bool,
    /// The one kind of allocator that it is for, if it is not for all.
    for_one: Option<&'static str>,
}

/// Every workload, in the order in which they are run.
pub const WORKLOADS: &[Workload] = &[
    Workload { for_pairs: true, ..all("pair", "allocate and free of one size", pairs::pair) },
    Workload {
        for_pairs: true,
        ..many("legacy", "pairs and random calls on the legacy default stream", defaults::legacy)
    },
    Workload {
        for_pairs: true,
        ..many("per-thread", "the same on the thread's default stream", defaults::per_thread)
    },
    Workload { for_pairs: true, ..many("foreign", "pairs on adopted streams", foreign::foreign) },
    Workload {
        for_one: Some("pool-cuda"),
        ..all("adaptor", "the same through each adaptor", adaptors::adaptor_pairs)
    },
    many("holes", "the same beside free blocks", pairs::holes),
    all("random", "random calls on one and on eight streams", random::random),
    many("streams", "random calls on 256 streams", random::streams),
    many("bursts", "many blocks allocated before any is freed", bursts::bursts),
    many("new-streams", "streams that live for a few calls", bursts::new_streams),
    many("large", "random calls for large blocks", random::large),
    all("allocate", "percentiles of one allocation among random calls", random::allocate),
    all("threads", "random calls of up to 16 threads at once", threads::threads),
    many("threads-large", "the same for large blocks, of 16 threads", threads::large),
    many("threads-empty", "the same of 16 threads, from an empty pool", threads::from_empty),
    many("migrate", "tasks that change threads", migrate::migrate),
    many("shared", "random calls of 16 threads on one stream", threads::shared),
    many("handoff", "freed on another thread", pairs::handoff),
    many("latency", "the longest calls beside many blocks and streams", latency::latency),
    many("grow", "allocations from an empty pool", growth::grow),
    many("busy", "random calls beside work of the device", growth::busy),
    all("vector", "vectors of all sizes, and on four streams", vector::vector),
    all("multi-stream", "small blocks beside work of the device", multi_stream::multi_stream),
    many("replay", "recorded programs", replay::replay),
    Workload {
        for_one: Some("pool"),
        ..all("sleep", "a pool that sleeps and wakes up", sleep::sleep)
    },
    Workload {
        for_one: Some("pool"),
        ..all("refusals", "requests with a deadline of a full pool", refusals::refusals)
    },
    Workload {
        for_one: Some("pool"),
        ..all("copies", "copies of a buffer within and between devices", copies::copies)
    },
    Workload {
        for_one: Some("pool-cuda"),
        ..all("pinned", "a GiB of pinned memory", sleep::pinned)
    },
    Workload {
        for_one: Some("cuda-async"),
        ..all("priming", "a driver pool that reserves memory when it is made", priming::priming)
    },
    #[cfg(feature = "cudarc")]
    Workload {
        for_one: Some("pool-cuda"),
        ..all("cudarc", "a vector's allocation and drop beside cudarc's slices", cudarc::cudarc)
    },
];

const fn all(
    name: &'static str,
    about: &'static str,
    run: fn(&mut Bench<'_>) -> Outcome,
) -> Workload {
    Workload { name, about, run, for_pairs: false, for_little: true, for_one: None }
}

/// A workload with too many calls for allocators that take microseconds for each: they are left
/// out.
const fn many(
    name: &'static str,
    about: &'static str,
    run: fn(&mut Bench<'_>) -> Outcome,
) -> Workload {
    Workload { for_little: false, ..all(name, about, run) }
}

impl Workload {
    /// Whether it can be asked of this kind of allocator.
    pub fn suits(&self, kind: &Kind) -> bool {
        let serves = match kind.serves {
            Serves::Everything => true,
            Serves::Pairs => self.for_pairs,
            Serves::Little => self.for_little,
        };
        serves && self.for_one.is_none_or(|name| name == kind.name)
    }

    /// Times it.
    ///
    /// # Errors
    /// If the allocator cannot be made, an allocation fails, or a row cannot be written.
    pub fn run(&self, bench: &mut Bench<'_>) -> Outcome {
        (self.run)(bench)
    }
}
