//! Kernels that detect blocks that two owners share: one writes a tag into a block, another checks
//! that it is still there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_core::{CudaStream, DevicePtr};
use rmm_sim::{Kernel, Machine};

/// Counts blocks whose tag was overwritten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mismatches(Arc<AtomicU64>);

impl Mismatches {
    /// The count so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The first and the last word of a block.
fn ends(pointer: DevicePtr, bytes: usize) -> [DevicePtr; 2] {
    [pointer, DevicePtr(pointer.0 + bytes as u64 - 8)]
}

/// Enqueues a write of `tag` to a block on `stream`.
pub(crate) fn write(
    machine: &Machine,
    stream: &CudaStream,
    pointer: DevicePtr,
    bytes: usize,
    tag: u64,
) {
    let kernel = Kernel::new("write", move |memory| {
        for place in ends(pointer, bytes) {
            memory.write(place, &tag.to_le_bytes()).expect("declared above");
        }
    });
    machine
        .launch(stream.as_raw(), kernel.writes(pointer, bytes))
        .expect("the stream and the block are there");
}

/// Enqueues a check of `tag` in a block on `stream`.
pub(crate) fn check(
    machine: &Machine,
    stream: &CudaStream,
    pointer: DevicePtr,
    bytes: usize,
    tag: u64,
    mismatches: &Mismatches,
) {
    let mismatches = mismatches.clone();
    let kernel = Kernel::new("check", move |memory| {
        for place in ends(pointer, bytes) {
            let mut found = [0; 8];
            memory.read(place, &mut found).expect("declared above");
            if u64::from_le_bytes(found) != tag {
                mismatches.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    machine
        .launch(stream.as_raw(), kernel.reads(pointer, bytes))
        .expect("the stream and the block are there");
}
