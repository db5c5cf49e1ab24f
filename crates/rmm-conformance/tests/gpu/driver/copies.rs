//! Copies that name their direction, and memory of a pool at the host.

use std::alloc::Layout;
use std::ffi::c_void;

use rmm_conformance::{Failure, ensure};
use rmm_core::{CudaStream, DevicePtr, Error, SynchronousResource, copy, driver_in_context};
use rmm_resources::{
    CudaAsyncPinnedMemoryResource, CudaMemoryResource, ManagedMemoryResource,
    PinnedHostMemoryResource,
};
use rmm_sys::CuResult;

use super::memory::{free_pinned, pinned};
use super::raw::{Memory, Stream, driver};
use super::stall::Stall;
use super::{answers, works};
use crate::pair::stream;
use crate::run::{in_every_environment, in_every_place};

const BYTES: usize = 8;
const LAYOUT: Layout = Layout::new::<[u8; BYTES]>();
const DEVICE: CudaMemoryResource = CudaMemoryResource::new();

/// Memory of a resource, freed when this is dropped, after the stream has completed its work.
struct Held<'a> {
    resource: &'a dyn SynchronousResource,
    stream: &'a CudaStream,
    pointer: DevicePtr,
}

impl<'a> Held<'a> {
    fn new(resource: &'a dyn SynchronousResource, stream: &'a CudaStream) -> Result<Self, Error> {
        Ok(Self { resource, stream, pointer: resource.allocate_sync(LAYOUT)? })
    }

    /// The address, for memory that the host may use.
    fn on_host(&self) -> Result<*mut c_void, Failure> {
        let address = usize::try_from(self.pointer.0).map_err(Failure::new)?;
        Ok(std::ptr::with_exposed_provenance_mut(address))
    }

    /// What copies that name their direction answer, with this as the device's side: two to it, two
    /// from it, and of each the second one asynchronous. `host` names as many bytes, and stays
    /// until the stream is done.
    fn copies_by_name(&self, host: *mut c_void) -> Result<[CuResult; 4], Error> {
        let ((driver, _), own, stream) = (driver_in_context()?, self.pointer, self.stream.as_raw());
        // SAFETY: both sides are so long; this one is freed, and the other one gone, only when
        // the stream is done.
        let to = unsafe { driver.cuMemcpyHtoD_v2(own, host, BYTES) };
        // SAFETY: as above.
        let to_async = unsafe { driver.cuMemcpyHtoDAsync_v2(own, host, BYTES, stream) };
        self.stream.synchronize()?; // the next copy is in the order of the default stream
        // SAFETY: as above.
        let from = unsafe { driver.cuMemcpyDtoH_v2(host, own, BYTES) };
        // SAFETY: as above.
        let from_async = unsafe { driver.cuMemcpyDtoHAsync_v2(host, own, BYTES, stream) };
        self.stream.synchronize()?;
        Ok([to, to_async, from, from_async])
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.stream.synchronize().is_ok() {
            // SAFETY: allocated by `new` with this layout, and no work on it is left.
            unsafe { self.resource.deallocate_sync(self.pointer, LAYOUT) };
        }
    }
}

#[test]
fn copies_that_name_their_direction_take_no_memory_of_a_pool_at_the_host_for_the_devices() {
    in_every_place(|| {
        let at_host = match CudaAsyncPinnedMemoryResource::new() {
            Ok(resource) => resource,
            Err(error) => return ensure(error.is_unsupported(), || error.to_string()),
        };
        let own = stream()?;
        let mut bytes = vec![0u8; BYTES];
        let host = bytes.as_mut_ptr().cast::<c_void>();

        let pooled = Held::new(&at_host, &own)?;
        let refused = [CuResult::INVALID_VALUE; 4];
        answers("a pool at the host", &pooled.copies_by_name(host)?, &refused)?;
        let accepted: [(&str, &dyn SynchronousResource); 3] = [
            ("pinned memory", &PinnedHostMemoryResource::new()),
            ("managed memory", &ManagedMemoryResource::new()),
            ("device memory", &DEVICE),
        ];
        for (what, resource) in accepted {
            let block = Held::new(resource, &own)?;
            answers(what, &block.copies_by_name(host)?, &[CuResult::SUCCESS; 4])?;
        }

        let block = Held::new(&DEVICE, &own)?;
        answers(
            "a pool at the host as the host's side",
            &block.copies_by_name(pooled.on_host()?)?,
            &[CuResult::SUCCESS; 4],
        )
    });
}

#[test]
fn copies_that_name_no_direction_take_memory_of_a_pool_at_the_host() {
    in_every_place(|| {
        let at_host = match CudaAsyncPinnedMemoryResource::new() {
            Ok(resource) => resource,
            Err(error) => return ensure(error.is_unsupported(), || error.to_string()),
        };
        let own = stream()?;
        let (there, mut back) = ([1u8, 2, 3, 4, 5, 6, 7, 8], [0u8; BYTES]);
        let (pooled, block) = (Held::new(&at_host, &own)?, Held::new(&DEVICE, &own)?);
        let (order, from, to) =
            (own.as_stream_ref(), there.as_ptr().cast(), back.as_mut_ptr().cast());
        // SAFETY: all are so long, and live until the synchronization below.
        unsafe { copy::host_to_device(pooled.pointer, from, BYTES, order) }?;
        // SAFETY: as above.
        unsafe { copy::device_to_device(block.pointer, pooled.pointer, BYTES, order) }?;
        // SAFETY: as above.
        unsafe { copy::fill(pooled.pointer, 0, BYTES, order) }?;
        // SAFETY: as above.
        unsafe { copy::device_to_device(pooled.pointer, block.pointer, BYTES, order) }?;
        // SAFETY: as above.
        unsafe { copy::device_to_host(to, pooled.pointer, BYTES, order) }?;
        own.synchronize()?;
        answers("what went there and back", &back, &there)
    });
}

#[test]
fn bytes_are_copied_to_the_device_and_back() {
    in_every_place(|| {
        let (one, other, own) = (Memory::words()?, Memory::words()?, Stream::non_blocking()?);
        let (a, b) = (one.pointer, other.pointer);
        let source: Vec<u8> = (0..=250).cycle().take(1000).collect();
        let mut target = vec![0_u8; 1000];
        let from = source.as_ptr().cast();
        let to: *mut c_void = target.as_mut_ptr().cast();
        // SAFETY: here and below all are as long, and live until the work is done.
        works("a copy to the device", unsafe {
            driver().cuMemcpyHtoDAsync_v2(a, from, 1000, own.raw())
        })?;
        // SAFETY: as above.
        works("a copy on it", unsafe { driver().cuMemcpyDtoDAsync_v2(b, a, 1000, own.raw()) })?;
        // "The function will return only once the copy has completed", to pageable memory.
        // SAFETY: as above.
        works("a copy back", unsafe { driver().cuMemcpyDtoHAsync_v2(to, b, 1000, own.raw()) })?;
        answers("what came back", &target, &source)?;

        // SAFETY: as above.
        works("a fill", unsafe { driver().cuMemsetD32_v2(a, 0x0102_0304, 250) })?;
        // SAFETY: as above.
        works("a copy of it", unsafe { driver().cuMemcpyDtoH_v2(to, a, 1000) })?;
        let word = 0x0102_0304_u32.to_ne_bytes();
        answers("the last word", &target.last_chunk(), &Some(&word))?;
        // SAFETY: as above.
        let code = unsafe { driver().cuMemcpy(DevicePtr(to.expose_provenance() as u64), b, 1000) };
        works("a copy without a direction", code)?;
        answers("what it brought", &target, &source)
    });
}

#[test]
fn pageable_sources_are_read_immediately_and_pinned_ones_late() {
    in_every_environment(|environment| {
        let (one, other, own) = (Memory::words()?, Memory::words()?, Stream::non_blocking()?);
        let page = pinned(4, 0)?;
        let word = page.cast::<u32>();
        let mut pageable = 1_u32;
        // SAFETY: the memory is as long, and no work uses it yet.
        unsafe { word.write_volatile(1) };
        let stall = Stall::on(environment.handle(), &own)?;
        let source = (&raw const pageable).cast();
        // SAFETY: both are so long. The source is read before the call returns.
        let early = unsafe { driver().cuMemcpyHtoDAsync_v2(one.pointer, source, 4, own.raw()) };
        // SAFETY: both are so long, and live until the work is done.
        let late = unsafe { driver().cuMemcpyHtoDAsync_v2(other.pointer, page, 4, own.raw()) };
        pageable += 1;
        // SAFETY: the memory is the host's, too, and the copy has not begun.
        unsafe { word.write_volatile(pageable) };
        stall.release()?;
        works("the wait", own.synchronize())?;
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { free_pinned(page) })?;
        works("the first copy", early)?;
        works("the second copy", late)?;
        one.holds(1)?;
        other.holds(2)
    });
}
