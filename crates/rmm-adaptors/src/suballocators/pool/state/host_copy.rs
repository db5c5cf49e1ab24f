//! The contents of device memory in host memory, copied in large pieces.

use std::alloc::Layout;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rmm_core::known_contexts::context_of_memory;
use rmm_core::{
    AnySynchronousResource, CUDA_ALLOCATION_ALIGNMENT, Context, CudaEvent, CudaStream, DevicePtr,
    Error, HostAccessible, Introspect, SynchronousResource, ask_again, copy, fork,
};

/// Bytes of one host block, of one copy at most, and between two reports: 1 ms of a bus of 64 GB/s.
const CHUNK: u64 = 64 << 20;
/// Copies that are enqueued before the first of them is waited for: the bus is never idle.
const IN_FLIGHT: usize = 2;

/// A range of the device's memory, and where it stands in the copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    address: u64,
    bytes: u64,
    offset: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToHost,
    ToDevice,
}

/// Ranges of the device's memory, behind one another in host memory.
#[derive(Debug)]
pub(crate) struct HostCopy {
    memory: AnySynchronousResource<HostAccessible>,
    /// The context that the host blocks end with, if they do.
    context: Option<Context>,
    /// Host blocks, all of [`CHUNK`] bytes but the last.
    ///
    /// # Invariant
    /// Allocated from `memory` with these layouts, and known to no one else.
    chunks: Vec<(DevicePtr, Layout)>,
    /// By address.
    parts: Vec<Part>,
    /// Whether the device may still read or write the host blocks.
    is_in_use: bool,
}

impl HostCopy {
    /// Host memory for these ranges: addresses and bytes, which do not overlap.
    ///
    /// # Errors
    /// If there is too little.
    pub(crate) fn allocate(
        memory: AnySynchronousResource<HostAccessible>,
        ranges: &[(u64, u64)],
    ) -> Result<Self, Error> {
        let mut total = 0;
        let mut parts: Vec<Part> = ranges
            .iter()
            .map(|&(address, bytes)| {
                let part = Part { address, bytes, offset: total };
                total += bytes;
                part
            })
            .collect();
        parts.sort_unstable_by_key(|part| part.address);
        let mut this = Self { memory, context: None, chunks: Vec::new(), parts, is_in_use: false };
        let mut left = total;
        while left > 0 {
            let bytes = usize::try_from(left.min(CHUNK)).expect("a chunk's bytes fit");
            let layout = Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT)
                .expect("a chunk is no larger than any layout");
            let chunk = this.memory.allocate_sync(layout)?;
            this.chunks.push((chunk, layout));
            left -= bytes as u64;
        }
        // Of adaptors over a pool, the pool's.
        let mut stack = this.memory.stack();
        let its_own = stack.find_map(Introspect::try_value::<Context>);
        this.context = its_own.or_else(|| context_of_memory(&this.memory));
        Ok(this)
    }

    /// Copies all ranges to the host. `report` is told the bytes that are copied, and all.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The ranges are memory of the device whose context is current, and no work uses them.
    pub(crate) unsafe fn copy_to_host(
        &mut self,
        report: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let parts = self.parts.clone();
        // SAFETY: the caller's contract; the parts are the ranges.
        unsafe { self.copy_parts(Direction::ToHost, &parts, report) }
    }

    /// Copies what lies in one of the ranges `live` (addresses and bytes, by address) back.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// The ranges are memory of the device whose context is current, and no work uses them.
    pub(crate) unsafe fn copy_to_device(
        &mut self,
        live: &[(u64, u64)],
        report: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let parts = overlap(&self.parts, live);
        // SAFETY: the caller's contract; the parts lie in the ranges.
        unsafe { self.copy_parts(Direction::ToDevice, &parts, report) }
    }

    /// Copies bytes of the device's memory, as they were, out of the host blocks. False if they are
    /// not all in the copy.
    pub(crate) fn read(&self, address: u64, out: &mut [u8]) -> bool {
        let after = self.parts.partition_point(|part| part.address <= address);
        let Some(part) = after.checked_sub(1).map(|index| self.parts[index]) else { return false };
        let (skipped, bytes) = (address - part.address, out.len() as u64);
        if skipped > part.bytes || part.bytes - skipped < bytes || self.is_in_use {
            return false;
        }
        let mut left = out;
        for piece in cut(Part { address, bytes, offset: part.offset + skipped }) {
            let bytes = usize::try_from(piece.bytes).expect("a chunk's bytes fit");
            let (to, rest) = left.split_at_mut(bytes);
            let host: *const u8 = self.host_address(piece.offset);
            // SAFETY: (1) the piece lies in one chunk, by `cut`, which the host can read and which
            // stays allocated as long as `self`; (2) no copy of the device is under way; (3) `to`
            // is the caller's, and no part of a chunk, which is known to no one else.
            unsafe { host.copy_to_nonoverlapping(to.as_mut_ptr(), bytes) };
            left = rest;
        }
        true
    }

    /// The host address of an offset in the copy.
    fn host_address(&self, offset: u64) -> *mut u8 {
        let index = usize::try_from(offset / CHUNK).expect("there are few chunks");
        let (chunk, _) = self.chunks[index];
        let host = usize::try_from(chunk.0 + offset % CHUNK).expect("it is a host address");
        std::ptr::with_exposed_provenance_mut(host)
    }

    /// Copies, and waits for that.
    ///
    /// # Safety
    /// The contract of [`copy_to_host`](Self::copy_to_host), for these parts, which lie in the
    /// copy.
    unsafe fn copy_parts(
        &mut self,
        direction: Direction,
        parts: &[Part],
        report: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        if parts.is_empty() {
            return Ok(());
        }
        let stream = CudaStream::non_blocking()?;
        self.is_in_use = true;
        let copied = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the caller's contract.
            unsafe { self.enqueue(&stream, direction, parts, report) }
        }));
        // Also after an error or a panic, copies may still be running.
        let waited = ask_again(|| stream.synchronize());
        self.is_in_use = waited.is_err();
        copied.unwrap_or_else(|panic| resume_unwind(panic)).and(waited)
    }

    /// Enqueues all copies, a few large ones ahead of those that are complete.
    ///
    /// # Safety
    /// The contract of [`copy_parts`](Self::copy_parts).
    unsafe fn enqueue(
        &self,
        stream: &CudaStream,
        direction: Direction,
        parts: &[Part],
        report: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Error> {
        let total: u64 = parts.iter().map(|part| part.bytes).sum();
        let (mut enqueued, mut marked) = (0, 0);
        let mut in_flight: VecDeque<(CudaEvent, u64)> = VecDeque::new();
        for part in parts.iter().flat_map(|&part| cut(part)) {
            // SAFETY: the caller's contract; what `cut` returns lies in the part.
            unsafe { self.enqueue_one(stream, direction, part) }?;
            enqueued += part.bytes;
            if enqueued - marked < CHUNK && enqueued < total {
                continue;
            }
            marked = enqueued;
            let event = CudaEvent::new()?;
            event.record(stream)?;
            in_flight.push_back((event, enqueued));
            let most = if enqueued == total { 0 } else { IN_FLIGHT };
            while in_flight.len() > most
                && let Some((event, bytes)) = in_flight.pop_front()
            {
                event.synchronize()?;
                report(bytes, total);
            }
        }
        Ok(())
    }

    /// Enqueues the copy of a part within one chunk.
    ///
    /// # Safety
    /// The contract of [`copy_parts`](Self::copy_parts).
    unsafe fn enqueue_one(
        &self,
        stream: &CudaStream,
        direction: Direction,
        part: Part,
    ) -> Result<(), Error> {
        let bytes = usize::try_from(part.bytes).expect("a chunk's bytes fit");
        let (host, device) = (self.host_address(part.offset).cast(), DevicePtr(part.address));
        match direction {
            // SAFETY: the chunk is this copy's own and stays allocated until the stream was waited
            // for, or for ever; the caller's contract for the device's memory.
            Direction::ToHost => unsafe { copy::device_to_host(host, device, bytes, stream) },
            // SAFETY: as above; the chunk was written by the copy to the host.
            Direction::ToDevice => unsafe {
                copy::host_to_device(device, host.cast_const(), bytes, stream)
            },
        }
    }
}

impl Drop for HostCopy {
    fn drop(&mut self) {
        if self.is_in_use || fork::is_child() {
            // The device could write to memory that has another owner by then.
            return;
        }
        if self.context.is_some_and(|context| !context.is_there()) {
            // It has ended with its context, and another allocation may be at its address.
            return;
        }
        for (chunk, layout) in self.chunks.drain(..) {
            // A panic of the program's resource was reported when it began, and must not leave a
            // `Drop`.
            let _ignored = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the field's invariant, and the block is in the list no more; no work uses
                // it.
                unsafe { self.memory.deallocate_sync(chunk, layout) };
            }));
        }
    }
}

/// Cuts a part at the ends of chunks.
fn cut(part: Part) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (offset, left) = (part.offset + done, part.bytes - done);
        let bytes = left.min(CHUNK - offset % CHUNK);
        let next = Part { address: part.address + done, bytes, offset };
        done += bytes;
        (bytes > 0).then_some(next)
    })
}

/// What of the parts lies in the ranges; both by address.
fn overlap(parts: &[Part], ranges: &[(u64, u64)]) -> Vec<Part> {
    let mut both = Vec::new();
    let mut ranges = ranges.iter().peekable();
    for part in parts {
        let end = part.address + part.bytes;
        while ranges.next_if(|&&(start, bytes)| start + bytes <= part.address).is_some() {}
        while let Some(&&(start, bytes)) = ranges.peek()
            && start < end
        {
            let (from, to) = (start.max(part.address), (start + bytes).min(end));
            let offset = part.offset + (from - part.address);
            both.push(Part { address: from, bytes: to - from, offset });
            if start + bytes > end {
                break;
            }
            ranges.next();
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_at_the_ends_of_chunks() {
        let part = |address, bytes, offset| Part { address, bytes, offset };
        let cut_up: Vec<Part> = cut(part(256, 2 * CHUNK, CHUNK - 512)).collect();
        let ends = [
            part(256, 512, CHUNK - 512),
            part(768, CHUNK, CHUNK),
            part(768 + CHUNK, CHUNK - 512, 2 * CHUNK),
        ];
        assert_eq!(cut_up, ends);
    }

    #[test]
    fn what_was_freed_meanwhile_is_not_copied_back() {
        let part = |address, bytes, offset| Part { address, bytes, offset };
        let parts = [part(0, 100, 50), part(200, 100, 150), part(300, 10, 0)];
        let live = [(0, 20), (60, 40), (150, 100), (260, 45)];
        let both = [
            part(0, 20, 50),
            part(60, 40, 110),
            part(200, 50, 150),
            part(260, 40, 210),
            part(300, 5, 0),
        ];
        assert_eq!(overlap(&parts, &live), both);
        assert_eq!(overlap(&parts, &[]), []);
    }
}
