//! Round trips: a vector is copied to the device, through a kernel and back to pinned host memory,
//! by the containers and by the driver's own calls.
//!
//! Both make the same copies and launch the same kernel on one stream, in the same order, and wait
//! for the result. They use the same host memory, and the same device memory if it is allocated
//! once, since the place of memory makes more of a difference than the code that uses it. They
//! alternate, so that other activity of the machine affects both.

mod raw;
mod route;
mod typed;

use std::time::{Duration, Instant};

use rmm_cli::device::OpenDevice;
use serde::{Deserialize, Serialize};

pub use self::route::Allocation;
use self::route::Route;
use crate::outcome::Outcome;

/// What was measured of one size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Bytes that go each way.
    pub bytes: usize,
    /// When the memory was allocated.
    pub allocation: Allocation,
    /// Trips of either kind.
    pub trips: usize,
    /// A trip of the containers, in nanoseconds.
    pub typed_ns: f64,
    /// A trip of raw calls, in nanoseconds.
    pub raw_ns: f64,
    /// The first for one of the second.
    pub ratio: f64,
    /// Driver calls of one trip of the containers.
    pub typed_calls: u64,
    /// Driver calls of one trip of raw calls.
    pub raw_calls: u64,
}

/// Takes the words to the device, adds a number to each, and takes them back; complete on return.
type Trip = fn(&mut Route, u32) -> Outcome;

const KINDS: [Trip; 2] = [typed::go, raw::go];

/// Makes at most `trips` trips of each kind with `words` words, fewer the longer they take; the
/// device is current.
///
/// # Errors
/// If there is no memory, the driver refuses, or other words come back than should.
pub fn measure(
    device: &OpenDevice,
    words: u32,
    allocation: Allocation,
    trips: usize,
) -> Outcome<Figure> {
    let mut route = Route::new(device, words, allocation)?;
    // Warm-up.
    for summand in 0..3 {
        for trip in KINDS {
            timed(trip, &mut route, summand)?;
        }
    }
    let typed_calls = calls(device, typed::go, &mut route)?;
    let raw_calls = calls(device, raw::go, &mut route)?;

    let (mut typed_times, mut raw_times) = (Vec::new(), Vec::new());
    for summand in (0..u32::MAX).take(trips) {
        if summand % 2 == 0 {
            typed_times.push(timed(typed::go, &mut route, summand)?);
            raw_times.push(timed(raw::go, &mut route, summand)?);
        } else {
            raw_times.push(timed(raw::go, &mut route, summand)?);
            typed_times.push(timed(typed::go, &mut route, summand)?);
        }
    }
    for (trip, last) in KINDS.into_iter().zip([77, 78]) {
        trip(&mut route, last)?;
        let expected = (0..words).map(|word| word.wrapping_add(last));
        if !expected.eq(route.target.as_slice()?.iter().copied()) {
            return Err(format!("other words came back than should, of {words}").into());
        }
    }
    let (typed_ns, raw_ns) = (typical_ns(typed_times), typical_ns(raw_times));
    let bytes = usize::try_from(words)? * size_of::<u32>();
    let ratio = typed_ns / raw_ns;
    Ok(Figure { bytes, allocation, trips, typed_ns, raw_ns, ratio, typed_calls, raw_calls })
}

/// Times one trip, and checks both ends of the result.
fn timed(trip: Trip, route: &mut Route, summand: u32) -> Outcome<Duration> {
    let clock = Instant::now();
    trip(route, summand)?;
    let time = clock.elapsed();
    let result = route.target.as_slice()?;
    let ends = (result.first().copied(), result.last().copied());
    let last = route.words.checked_sub(1).map(|last| last.wrapping_add(summand));
    if ends == (Some(summand), last) {
        Ok(time)
    } else {
        Err(format!("{ends:?} came back, not {:?}", (Some(summand), last)).into())
    }
}

fn calls(device: &OpenDevice, trip: Trip, route: &mut Route) -> Outcome<u64> {
    let before = device.driver_calls();
    trip(route, 0)?;
    Ok(device.driver_calls() - before)
}

/// The mean of the middle half: the times of small trips come in steps of about a microsecond,
/// between which a median would jump.
fn typical_ns(mut times: Vec<Duration>) -> f64 {
    times.sort();
    let quarter = times.len() / 4;
    let middle = &times[quarter..times.len() - quarter];
    let count = u32::try_from(middle.len()).ok();
    let mean = count.and_then(|count| middle.iter().sum::<Duration>().checked_div(count));
    mean.map_or(f64::NAN, |mean| mean.as_secs_f64() * 1e9)
}
