//! A vector goes to the device, through a kernel and back into memory of the host: by the containers, and by the driver's own calls.
//!
//! Both do it in the same order on one stream, launch the same kernel by the same function, and wait for the result. They take turns in pairs,
//! so that whatever the machine does meanwhile happens to both.

mod raw;
mod typed;

use std::time::{Duration, Instant};

use rmm_cli::device::{DeviceHandle, OpenDevice};
use rmm_conformance::Kernels;
use rmm_core::{CudaStream, StreamFlags};
use serde::{Deserialize, Serialize};

use crate::workloads::Outcome;
use raw::Raw;
use typed::Typed;

/// When the memory of the device is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// Before the first trip: from a pool, and by `cuMemAlloc`.
    Once,
    /// In each trip, which frees it too: from a pool, and by `cuMemAllocAsync` from the device's default pool, which keeps what is freed.
    EachTrip,
}

/// What was measured of one size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Bytes that go each way.
    pub bytes: usize,
    /// When the memory was allocated.
    pub allocation: Allocation,
    /// Trips of either kind.
    pub trips: usize,
    /// The median trip of the containers, in nanoseconds.
    pub typed_ns: f64,
    /// The median trip of raw calls, in nanoseconds.
    pub raw_ns: f64,
    /// The first for one of the second.
    pub ratio: f64,
    /// Driver calls of one trip of the containers.
    pub typed_calls: u64,
    /// Driver calls of one trip of raw calls.
    pub raw_calls: u64,
}

/// One way to make the trip.
trait Trip {
    /// Takes the words to the device, adds `summand` to each, and takes them back; complete on return.
    fn go(&mut self, summand: u32) -> Outcome;

    /// The words that came back from the last trip.
    fn result(&self) -> Outcome<&[u32]>;
}

/// What goes up: word `i` is `i`.
fn source(words: u32) -> impl Iterator<Item = u32> {
    0..words
}

/// Makes at most `trips` trips of each kind with `words` words, fewer the longer they take; the device is current.
///
/// # Errors
/// If there is no memory, the driver refuses, or other words come back than should.
pub fn measure(
    device: &OpenDevice,
    words: u32,
    allocation: Allocation,
    trips: usize,
) -> Outcome<Figure> {
    let kernels = Kernels::load(&match device.handle() {
        DeviceHandle::Software(machine) => rmm_conformance::DeviceHandle::Software(machine),
        DeviceHandle::Gpu(gpu) => rmm_conformance::DeviceHandle::Gpu(gpu),
    })?;
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let mut typed = Typed::new(&kernels, &stream, words, allocation)?;
    let mut raw = Raw::new(&kernels, &stream, words, allocation)?;

    // The first trips make what is made once.
    for summand in 0..3 {
        for trip in [&mut typed as &mut dyn Trip, &mut raw] {
            timed(trip, words, summand)?;
        }
    }
    let typed_calls = calls(device, &mut typed)?;
    let raw_calls = calls(device, &mut raw)?;

    let (mut typed_times, mut raw_times) = (Vec::new(), Vec::new());
    for summand in (0..u32::MAX).take(trips) {
        if summand % 2 == 0 {
            typed_times.push(timed(&mut typed, words, summand)?);
            raw_times.push(timed(&mut raw, words, summand)?);
        } else {
            raw_times.push(timed(&mut raw, words, summand)?);
            typed_times.push(timed(&mut typed, words, summand)?);
        }
    }
    let last = 77;
    for trip in [&mut typed as &mut dyn Trip, &mut raw] {
        trip.go(last)?;
        if !source(words).map(|word| word.wrapping_add(last)).eq(trip.result()?.iter().copied()) {
            return Err(format!("other words came back than should, of {words}").into());
        }
    }
    let (typed_ns, raw_ns) = (median_ns(typed_times), median_ns(raw_times));
    let bytes = usize::try_from(words)? * size_of::<u32>();
    let ratio = typed_ns / raw_ns;
    Ok(Figure { bytes, allocation, trips, typed_ns, raw_ns, ratio, typed_calls, raw_calls })
}

/// Times one trip, and looks at both ends of what came back.
fn timed(trip: &mut dyn Trip, words: u32, summand: u32) -> Outcome<Duration> {
    let clock = Instant::now();
    trip.go(summand)?;
    let time = clock.elapsed();
    let result = trip.result()?;
    let ends = (result.first().copied(), result.last().copied());
    let expected = (Some(summand), words.checked_sub(1).map(|last| last.wrapping_add(summand)));
    if ends == expected {
        Ok(time)
    } else {
        Err(format!("{ends:?} came back, not {expected:?}").into())
    }
}

fn calls(device: &OpenDevice, trip: &mut dyn Trip) -> Outcome<u64> {
    let before = device.driver_calls();
    trip.go(0)?;
    Ok(device.driver_calls() - before)
}

fn median_ns(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e9)
}
