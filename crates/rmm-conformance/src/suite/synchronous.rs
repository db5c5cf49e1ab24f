//! Synchronous allocation: memory that every stream may use on return.

use std::alloc::Layout;

use rmm_core::{CudaStream, Device, DevicePtr, Resource};

use super::blocks::{BLOCK_WORDS, keep_busy};
use crate::{CheckResult, DeviceCounter, Failure, Subject};

/// A block from `allocate_sync`, freed by `deallocate_sync` when this is dropped, after a wait for
/// the device.
struct SyncBlock<'a, R: Resource> {
    resource: &'a R,
    pointer: DevicePtr,
    layout: Layout,
}

impl<'a, R: Resource> SyncBlock<'a, R> {
    fn allocate(resource: &'a R, words: u32) -> Result<Self, Failure> {
        let bytes = usize::try_from(words).map_err(Failure::new)?.saturating_mul(4);
        let layout = Layout::from_size_align(bytes, 256).map_err(Failure::new)?;
        Ok(Self { resource, pointer: resource.allocate_sync(layout)?, layout })
    }
}

impl<R: Resource> Drop for SyncBlock<'_, R> {
    fn drop(&mut self) {
        // If that fails the device is lost, and nothing uses anything.
        let _ignored = Device::synchronize_current();
        // SAFETY: allocated from this resource with this layout, and all uses have completed.
        unsafe { self.resource.deallocate_sync(self.pointer, self.layout) };
    }
}

/// Fills and checks a part of memory on each stream, with nothing between the streams.
fn use_on_every_stream<R: Resource>(
    subject: &Subject<'_, R>,
    pointer: DevicePtr,
    streams: &[CudaStream],
    errors: &DeviceCounter,
) -> CheckResult {
    let count = u32::try_from(streams.len()).map_err(Failure::new)?;
    let words = BLOCK_WORDS / count;
    let part = |number: u32| DevicePtr(pointer.0 + 4 * u64::from(number) * u64::from(words));
    for (number, stream) in (0..count).zip(streams) {
        // SAFETY: this part of the block is used by this stream only, until the device is waited
        // for.
        unsafe { subject.kernels().fill(stream.as_stream_ref(), part(number), words, number, 0) }?;
    }
    for _ in 0..2 {
        for (number, stream) in (0..count).zip(streams) {
            let kernels = subject.kernels();
            // SAFETY: as above.
            unsafe {
                kernels.check(stream.as_stream_ref(), part(number), words, number, errors.pointer())
            }?;
            errors.expect_none(stream, "memory for every stream was written to by another")?;
        }
        Device::synchronize_current()?;
    }
    Ok(())
}

fn streams<R: Resource>(subject: &Subject<'_, R>) -> Result<Vec<CudaStream>, Failure> {
    Ok(vec![
        subject.stream().clone(),
        subject.other_stream()?,
        CudaStream::legacy(),
        CudaStream::per_thread(),
    ])
}

/// Clause 3: memory from `allocate_sync` may be used by every stream at return.
///
/// # Errors
/// What is wrong.
pub fn synchronous_memory_is_usable_on_every_stream<R: Resource>(
    subject: &Subject<'_, R>,
) -> CheckResult {
    let errors = subject.counter()?;
    let streams = streams(subject)?;
    for _ in 0..3 {
        let block = SyncBlock::allocate(subject.resource(), BLOCK_WORDS)?;
        use_on_every_stream(subject, block.pointer, &streams, &errors)?;
    }
    Ok(())
}

/// Clauses 2 and 3: memory freed in stream order, with work still running, goes to
/// `allocate_sync` only when that work is complete; and memory from `deallocate_sync` goes to any
/// stream.
///
/// In a resource whose capacity is one block of [`BLOCK_WORDS`] words, the same block must be
/// reused.
///
/// # Errors
/// What is wrong.
pub fn synchronous_memory_is_free_of_earlier_work<R: Resource>(
    subject: &Subject<'_, R>,
) -> CheckResult {
    let errors = subject.counter()?;
    let streams = streams(subject)?;
    for giver in &streams {
        let given = subject.allocate(giver, BLOCK_WORDS)?;
        keep_busy(&given)?;
        drop(given);
        let block = SyncBlock::allocate(subject.resource(), BLOCK_WORDS)?;
        use_on_every_stream(subject, block.pointer, &streams, &errors)?;
    }
    Ok(())
}
