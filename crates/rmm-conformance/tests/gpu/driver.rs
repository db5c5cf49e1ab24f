//! Probes of a driver's behaviour, call by call, where its documentation states it or programs
//! build on it. They must get the same answers from a real driver and from the software device.
//!
//! What a probe may do on a real device is bounded: only calls whose result is documented, and
//! errors that are; nothing that is undefined or may harm the context, such as freeing twice or
//! using a handle that was destroyed. A probe that loses or resets the context runs in a process of
//! its own (`alone.rs`).

#[path = "driver/alone.rs"]
mod alone;
#[path = "driver/barriers.rs"]
mod barriers;
#[path = "driver/capture_calls.rs"]
mod capture_calls;
#[cfg(unix)]
#[path = "driver/context_captures.rs"]
mod context_captures;
#[cfg(unix)]
#[path = "driver/context_events.rs"]
mod context_events;
#[path = "driver/contexts.rs"]
mod contexts;
#[path = "driver/copies.rs"]
mod copies;
#[path = "driver/events.rs"]
mod events;
#[path = "driver/failures.rs"]
mod failures;
#[cfg(unix)]
#[path = "driver/gate.rs"]
mod gate;
#[path = "driver/graphs.rs"]
mod graphs;
#[cfg(unix)]
#[path = "driver/green_contexts.rs"]
mod green_contexts;
#[cfg(unix)]
#[path = "driver/identities.rs"]
mod identities;
#[path = "driver/legacy_events.rs"]
mod legacy_events;
#[cfg(unix)]
#[path = "driver/library.rs"]
mod library;
#[path = "driver/memory.rs"]
mod memory;
#[path = "driver/places.rs"]
mod places;
#[path = "driver/pointers.rs"]
mod pointers;
#[path = "driver/pool_bytes.rs"]
mod pool_bytes;
#[path = "driver/pool_life.rs"]
mod pool_life;
#[path = "driver/pool_reuse.rs"]
mod pool_reuse;
#[path = "driver/pool_unordered.rs"]
mod pool_unordered;
#[path = "driver/prefetches.rs"]
mod prefetches;
#[path = "driver/raw.rs"]
mod raw;
#[path = "driver/raw_graph.rs"]
mod raw_graph;
#[path = "driver/raw_pool.rs"]
mod raw_pool;
#[path = "driver/registered.rs"]
mod registered;
#[path = "driver/resets.rs"]
mod resets;
#[path = "driver/stall.rs"]
mod stall;
#[path = "driver/streams.rs"]
mod streams;
#[path = "driver/survivors.rs"]
mod survivors;
#[path = "driver/virtual_memory.rs"]
mod virtual_memory;
#[path = "driver/whole_context.rs"]
mod whole_context;
#[path = "driver/work.rs"]
mod work;
#[path = "driver/zero_bytes.rs"]
mod zero_bytes;

use std::fmt::Debug;
use std::io::Write;

use rmm_conformance::{CheckResult, Failure, ensure};
use rmm_sys::CuResult;

use crate::pair::{self, Pair, on};

/// Runs the probe with two devices in every place, the first one current.
#[track_caller]
fn in_every_pair(probe: impl Fn(&Pair) -> CheckResult) {
    pair::in_every_pair(|pair| on(pair.home, || probe(pair)));
}

/// Runs the probe with two devices in every place, the first one current; the software device does
/// not check it, since the probe misuses the driver on purpose.
#[track_caller]
fn in_every_pair_unwatched(probe: impl Fn(&Pair) -> CheckResult) {
    pair::in_every_pair_unwatched(|pair| on(pair.home, || probe(pair)));
}

/// Fails unless what was found is what was expected.
#[track_caller]
fn answers<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> CheckResult {
    ensure(found == expected, || format!("{what}: {found:?}, expected {expected:?}"))
}

/// Fails with every claim that does not hold, so that one run on a device shows all of them.
#[track_caller]
fn all(claims: impl IntoIterator<Item = CheckResult>) -> CheckResult {
    let broken: Vec<String> =
        claims.into_iter().filter_map(Result::err).map(|failure| failure.to_string()).collect();
    if broken.is_empty() { Ok(()) } else { Err(Failure::new(broken.join("; "))) }
}

/// Fails unless what was found is one of what may be: where no documentation says which.
#[track_caller]
fn is_one_of<T: PartialEq + Debug>(what: &str, found: &T, expected: &[T]) -> CheckResult {
    ensure(expected.contains(found), || format!("{what}: {found:?}, expected one of {expected:?}"))
}

/// Prints undocumented behaviour of the driver, for the reader of a run's output.
fn report(what: &str, found: &impl Debug) {
    // Not by `println!`, which the test runner keeps to itself.
    let _ignored = writeln!(std::io::stderr(), "SEEN: {what}: {found:?}");
}

/// Fails unless the code is success.
#[track_caller]
fn works(what: &str, code: CuResult) -> CheckResult {
    answers(what, &code, &CuResult::SUCCESS)
}

/// Fails unless the code is that there is work left.
#[track_caller]
fn waits(what: &str, code: CuResult) -> CheckResult {
    answers(what, &code, &CuResult::NOT_READY)
}

/// Fails unless the code is that an argument is wrong.
#[track_caller]
fn is_refused(what: &str, code: CuResult) -> CheckResult {
    answers(what, &code, &CuResult::INVALID_VALUE)
}
