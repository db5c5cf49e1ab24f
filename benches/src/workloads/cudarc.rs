//! Workload: allocation and drop of a vector of the pool, of cudarc's slices, and of slices in our
//! memory, with cudarc's tracking of events and without.
//!
//! cudarc's slices are the driver's allocations in stream order, so they are the same whatever
//! allocator is asked for.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaSlice};
use rmm_cli::device::AnyDevice;
use rmm_containers::DeviceUVector;
use rmm_core::{AnyResource, Device};
use rmm_interop_cudarc::{OwnedSlice, Stream};

use super::bench::{Bench, median, nanos_per};
use crate::allocators::Start;
use crate::outcome::Outcome;

/// 4 KiB.
const LEN: usize = 1024;

/// What is allocated and dropped.
#[derive(Clone, Copy)]
enum Kind {
    Vector,
    Slice,
    OwnedSlice,
}

/// One row: what is allocated, and whether cudarc tracks events meanwhile.
const ROWS: [(&str, Kind, bool); 5] = [
    ("vector", Kind::Vector, true),
    ("slice tracked", Kind::Slice, true),
    ("slice untracked", Kind::Slice, false),
    ("owned slice tracked", Kind::OwnedSlice, true),
    ("owned slice untracked", Kind::OwnedSlice, false),
];

/// All of them in turns, so that other activity of the machine affects each.
pub(super) fn cudarc(bench: &mut Bench<'_>) -> Outcome {
    if bench.device.is_software() {
        rmm_sim_cuda::load()?;
    }
    let ordinal = match bench.device.handle() {
        AnyDevice::Software(_) => 0,
        AnyDevice::Gpu(device) => device.ordinal(),
    };
    let (tracked, untracked) = (CudaContext::new(ordinal)?, CudaContext::new(ordinal)?);
    // SAFETY: each slice of this context is used on one stream.
    unsafe { untracked.disable_event_tracking() };
    let pool = bench.make(Start::Full)?.resource;
    let sides = [Side::new(&tracked, &pool)?, Side::new(&untracked, &pool)?];

    let pairs = bench.extent.scaled(10_000);
    let mut times = [const { Vec::new() }; ROWS.len()];
    for turn in 0..=bench.extent.repetitions() {
        for ((_, kind, is_tracked), times) in ROWS.iter().zip(&mut times) {
            let side = &sides[usize::from(!is_tracked)];
            let nanos = side.timed(*kind, pairs)?;
            Device::synchronize_current()?;
            if turn > 0 {
                times.push(nanos);
            }
        }
    }
    for ((params, ..), times) in ROWS.iter().zip(times) {
        bench.row("cudarc", *params, median(times), "ns/pair")?;
    }
    // A slice's destructor reports its failures here.
    Ok(tracked.check_err().and_then(|()| untracked.check_err())?)
}

/// A context of cudarc's with a stream, and the pool. Both contexts are the device's one.
struct Side<'a> {
    stream: Stream,
    pool: &'a AnyResource,
}

impl<'a> Side<'a> {
    fn new(context: &Arc<CudaContext>, pool: &'a AnyResource) -> Outcome<Self> {
        // SAFETY: the stream is not captured.
        Ok(Self { stream: unsafe { Stream::adopt(&context.new_stream()?) }?, pool })
    }

    fn timed(&self, kind: Kind, pairs: usize) -> Outcome<f64> {
        match kind {
            Kind::Vector => timed(pairs, || self.vector()),
            Kind::Slice => timed(pairs, || self.slice()),
            Kind::OwnedSlice => timed(pairs, || self.owned_slice()),
        }
    }

    fn vector(&self) -> Outcome<DeviceUVector<f32>> {
        Ok(DeviceUVector::uninit_in(LEN, &self.stream, self.pool)?)
    }

    fn slice(&self) -> Outcome<CudaSlice<f32>> {
        // SAFETY: the elements are not read.
        Ok(unsafe { self.stream.alloc(LEN) }?)
    }

    fn owned_slice(&self) -> Outcome<OwnedSlice<f32>> {
        // SAFETY: it is used on its own stream alone.
        Ok(unsafe { OwnedSlice::new(self.vector()?, &self.stream) }?)
    }
}

/// Makes and drops as many: nanoseconds of one.
fn timed<T>(pairs: usize, make: impl Fn() -> Outcome<T>) -> Outcome<f64> {
    let clock = Instant::now();
    for _ in 0..pairs {
        drop(make()?);
    }
    Ok(nanos_per(clock.elapsed(), pairs as u64))
}
