//! What a driver does, call by call, where its documentation says so or where programs build on it: probes that must get the same
//! answers from a real driver and from the software device.
//!
//! What a probe may do on a real device is bounded: only calls whose result is documented, and errors that are; nothing that is
//! undefined or may harm the context, such as freeing twice or using a handle that was destroyed.

#[path = "driver/barriers.rs"]
mod barriers;
#[path = "driver/contexts.rs"]
mod contexts;
#[path = "driver/copies.rs"]
mod copies;
#[path = "driver/events.rs"]
mod events;
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
#[path = "driver/raw.rs"]
mod raw;
#[path = "driver/raw_pool.rs"]
mod raw_pool;
#[path = "driver/registered.rs"]
mod registered;
#[path = "driver/stall.rs"]
mod stall;
#[path = "driver/streams.rs"]
mod streams;
#[path = "driver/virtual_memory.rs"]
mod virtual_memory;
#[path = "driver/whole_context.rs"]
mod whole_context;
#[path = "driver/work.rs"]
mod work;

use std::fmt::Debug;

use rmm_conformance::{Outcome, ensure};
use rmm_sys::CuResult;

use crate::pair::{self, Pair, on};

/// Runs the probe with two devices in every place, the first one current.
#[track_caller]
fn in_every_pair(probe: impl Fn(&Pair) -> Outcome) {
    pair::in_every_pair(|pair| on(pair.home, || probe(pair)));
}

/// As [`in_every_pair`], for what the software device would tell as misuse.
#[track_caller]
fn in_every_pair_unwatched(probe: impl Fn(&Pair) -> Outcome) {
    pair::in_every_pair_unwatched(|pair| on(pair.home, || probe(pair)));
}

/// Fails unless what was found is what was expected.
#[track_caller]
fn answers<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    ensure(found == expected, || format!("{what}: {found:?}, expected {expected:?}"))
}

/// Fails unless the code is success.
#[track_caller]
fn works(what: &str, code: CuResult) -> Outcome {
    answers(what, &code, &CuResult::SUCCESS)
}

/// Fails unless the code is that there is work left.
#[track_caller]
fn waits(what: &str, code: CuResult) -> Outcome {
    answers(what, &code, &CuResult::NOT_READY)
}

/// Fails unless the code is that an argument is wrong.
#[track_caller]
fn is_refused(what: &str, code: CuResult) -> Outcome {
    answers(what, &code, &CuResult::INVALID_VALUE)
}
