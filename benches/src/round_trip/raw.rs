//! The trip by the driver's own calls, as a program makes them that knows what it does.

use std::ffi::c_void;
use std::ptr;

use rmm_conformance::Kernels;
use rmm_core::{CudaStream, Device, StreamRef, current_driver};
use rmm_sys::{
    CuDevicePtr, CuMemPool, CuMemPoolAttribute, CuResult, Driver, MEMHOSTALLOC_DEVICEMAP,
    MEMHOSTALLOC_PORTABLE,
};

use super::{Allocation, Trip, source};
use crate::workloads::Outcome;

pub(super) struct Raw<'a> {
    driver: &'static Driver,
    kernels: &'a Kernels,
    stream: StreamRef<'a>,
    words: u32,
    bytes: usize,
    source: Pinned,
    target: Pinned,
    /// The memory that was allocated once, if that was asked for.
    memory: Option<Memory>,
}

impl<'a> Raw<'a> {
    pub(super) fn new(
        kernels: &'a Kernels,
        stream: &'a CudaStream,
        words: u32,
        allocation: Allocation,
    ) -> Outcome<Self> {
        let driver = current_driver()?;
        let bytes = usize::try_from(words)? * size_of::<u32>();
        let memory = match allocation {
            Allocation::Once => Some(Memory::new(driver, bytes)?),
            Allocation::EachTrip => {
                keep_what_is_freed(driver)?;
                None
            }
        };
        let (from, target) = (Pinned::new(driver, bytes)?, Pinned::new(driver, bytes)?);
        let len = usize::try_from(words)?;
        // SAFETY: so many words are there, zeroed, and nobody else uses them yet.
        let place = unsafe { std::slice::from_raw_parts_mut(from.pointer.cast::<u32>(), len) };
        place.iter_mut().zip(source(words)).for_each(|(word, value)| *word = value);
        let stream = stream.as_ref();
        Ok(Self { driver, kernels, stream, words, bytes, source: from, target, memory })
    }

    fn enqueue(&self, summand: u32) -> Outcome {
        let (driver, stream) = (self.driver, self.stream.as_raw());
        if let Some(memory) = &self.memory {
            return self.through(memory.pointer, summand);
        }
        let mut memory = CuDevicePtr::NULL;
        // SAFETY: `memory` may be written to, and the stream lives.
        unsafe { driver.cuMemAllocAsync(&raw mut memory, self.bytes, stream) }.result()?;
        let enqueued = self.through(memory, summand);
        // SAFETY: allocated above; its uses are on this stream.
        unsafe { driver.cuMemFreeAsync(memory, stream) }.result()?;
        enqueued
    }

    fn through(&self, memory: CuDevicePtr, summand: u32) -> Outcome {
        let (bytes, stream) = (self.bytes, self.stream.as_raw());
        // SAFETY: both have so many bytes, and stay as they are until the stream has been waited for.
        unsafe { self.driver.cuMemcpyHtoDAsync_v2(memory, self.source.pointer, bytes, stream) }
            .result()?;
        // SAFETY: so many words are there, and used on this stream only.
        unsafe { self.kernels.add(self.stream, memory, self.words, summand) }?;
        // SAFETY: both have so many bytes; nobody looks at the target before the stream has been waited for.
        unsafe { self.driver.cuMemcpyDtoHAsync_v2(self.target.pointer, memory, bytes, stream) }
            .result()?;
        Ok(())
    }
}

impl Trip for Raw<'_> {
    fn go(&mut self, summand: u32) -> Outcome {
        let (driver, stream) = (self.driver, self.stream.as_raw());
        let enqueued = self.enqueue(summand);
        // Whatever failed: the copies that are enqueued use memory that may be freed next.
        // SAFETY: the stream lives.
        let done = unsafe { driver.cuStreamSynchronize(stream) }.result();
        enqueued?;
        Ok(done?)
    }

    fn result(&self) -> Outcome<&[u32]> {
        let words = usize::try_from(self.words)?;
        // SAFETY: so many words are there, all of them written; a trip, which writes them, borrows this value and waits for its copies.
        Ok(unsafe { std::slice::from_raw_parts(self.target.pointer.cast(), words) })
    }
}

/// Has the current device's default pool keep what is freed, since it would give it back at each wait.
fn keep_what_is_freed(driver: &Driver) -> Outcome {
    let (device, mut pool) = (Device::current()?.as_raw(), CuMemPool::NULL);
    // SAFETY: `pool` may be written to.
    unsafe { driver.cuDeviceGetMemPool(&raw mut pool, device) }.result()?;
    let mut all = u64::MAX;
    let value = (&raw mut all).cast::<c_void>();
    // SAFETY: the pool is the device's, and the value is a 64-bit number.
    unsafe { driver.cuMemPoolSetAttribute(pool, CuMemPoolAttribute::RELEASE_THRESHOLD, value) }
        .result()?;
    Ok(())
}

/// Pinned memory, zeroed.
struct Pinned {
    driver: &'static Driver,
    pointer: *mut c_void,
}

impl Pinned {
    fn new(driver: &'static Driver, bytes: usize) -> Result<Self, CuResult> {
        let mut pointer = ptr::null_mut();
        // As `PinnedHostMemoryResource` asks for it.
        let flags = MEMHOSTALLOC_PORTABLE | MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: `pointer` may be written to.
        unsafe { driver.cuMemHostAlloc(&raw mut pointer, bytes, flags) }.result()?;
        // SAFETY: so many bytes were allocated above.
        unsafe { pointer.cast::<u8>().write_bytes(0, bytes) };
        Ok(Self { driver, pointer })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it is ours, and each trip waits for its copies, whether it fails or not.
        let _gone = unsafe { self.driver.cuMemFreeHost(self.pointer) };
    }
}

/// Memory of the device.
struct Memory {
    driver: &'static Driver,
    pointer: CuDevicePtr,
}

impl Memory {
    fn new(driver: &'static Driver, bytes: usize) -> Result<Self, CuResult> {
        let mut pointer = CuDevicePtr::NULL;
        // SAFETY: `pointer` may be written to.
        unsafe { driver.cuMemAlloc_v2(&raw mut pointer, bytes) }.result()?;
        Ok(Self { driver, pointer })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is ours, and each trip waits for its work, whether it fails or not.
        let _gone = unsafe { self.driver.cuMemFree_v2(self.pointer) };
    }
}
