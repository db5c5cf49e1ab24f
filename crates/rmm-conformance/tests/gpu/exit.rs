//! Programs that exit while something still holds memory, streams or futures: each way out ends in
//! time, with the status that the program chose and without a word, and no call reaches the driver
//! once it may have shut down.
//!
//! RMM #2202, #2366: destructors called a driver that was gone, and the process crashed.
#![cfg(unix)]

#[path = "exit/containers.rs"]
mod containers;
#[path = "exit/futures.rs"]
mod futures;
#[path = "exit/program.rs"]
mod program;
#[path = "exit/resources.rs"]
mod resources;
#[path = "exit/streams.rs"]
mod streams;
#[path = "exit/suballocators.rs"]
mod suballocators;
#[path = "exit/tensors.rs"]
mod tensors;

use rmm_conformance::{Environment, Failure};

use program::{Held, Way, every_way_out_is_clean};

/// What a program holds.
struct Holder {
    name: &'static str,
    /// The resource that has to be selected for it.
    resource: &'static str,
    ways: &'static [Way],
    /// Fills the program for a way out; what is left to the handler at the very end.
    fill: fn(&Environment, &str) -> Result<Held, Failure>,
}

/// Defines the table, and a test for each entry.
macro_rules! holders {
    ($($name:ident: $resource:literal, $ways:ident, $fill:expr;)*) => {
        static HOLDERS: &[Holder] = &[$(Holder {
            name: stringify!($name),
            resource: $resource,
            ways: &$ways,
            fill: $fill,
        }),*];

        $(#[test]
        fn $name() {
            every_way_out_is_clean(stringify!($name));
        })*
    };
}

holders! {
    base_resources: "cuda", WAYS, |_, _| resources::fill();
    containers_and_streams: "pool", WAYS, |_, way| containers::fill(way);
    streams_with_an_owner: "cuda-async", WAYS, |_, _| streams::fill();
    abandoned_futures: "cuda", WAYS, |_, _| futures::fill();
    exported_tensors: "cuda", WAYS, |_, _| tensors::fill();
    pool: "pool", WAYS_WITH_THREADS, |environment, way| {
        suballocators::fill("pool(cuda, initial=1MiB)", environment, way)
    };
    compact_pool: "pool", WAYS_WITH_THREADS, |environment, way| {
        suballocators::fill("pool(cuda, preset=compact)", environment, way)
    };
    pool_over_virtual_memory: "pool-virtual", WAYS_WITH_THREADS, |environment, way| {
        suballocators::fill("pool(virtual)", environment, way)
    };
    pool_over_the_driver_s_pool: "cuda-async", WAYS_WITH_THREADS, |environment, way| {
        suballocators::fill("pool(cuda-async)", environment, way)
    };
    arena: "arena", WAYS_WITH_THREADS, |environment, way| {
        suballocators::fill("arena(cuda, size=128MiB)", environment, way)
    };
    binning: "binning", WAYS_WITH_THREADS, |environment, way| {
        suballocators::fill("binning(pool(cuda), bins=10..12)", environment, way)
    };
    fixed_size: "binning", WAYS_WITH_THREADS, |environment, way| {
        suballocators::fill("fixed-size(cuda, block=4MiB, blocks=4)", environment, way)
    };
}

const WAYS: [Way; 4] = [
    ("return", 0),
    ("exit", 7),
    ("panic", 101),
    // As `return`, when all calls of the driver fail already. Only the software device can go so
    // early.
    ("driver-first", 0),
];

const WAYS_WITH_THREADS: [Way; 7] = [
    WAYS[0],
    WAYS[1],
    WAYS[2],
    WAYS[3],
    // As `return`; the handler drops the resource before the blocks from it.
    ("resource-first", 0),
    // As `return`, after a thread has ended whose values held blocks.
    ("thread-ended", 0),
    // As `exit`, while a thread is there whose values hold blocks.
    ("thread-stays", 7),
];
