//! Blocks of the owner's memory.

use std::alloc::Layout;

use rmm_core::accessible_from::AccessibleFrom;
use rmm_core::known_contexts::is_done_or_ended;
use rmm_core::siblings::{allocate_with, of_device};
use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, DeviceAccessible, DevicePtr, Error, HasMemoryKind, HasProperty,
    HasPropertyValue, MemoryKind, Query, Resource, StreamRef, SynchronousResource, fork,
    process_is_exiting,
};
use rmm_resources::{ImportAccess, ImportedMemory};

use super::mappings::pieces;
use super::{Leased, LeasedMemoryResource, NAME, Shared};
use crate::LeaseError;
use crate::protocol::Granted;

impl From<LeaseError> for Error {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Memory(error) => error,
            LeaseError::Refused(refusal) if refusal.out_of_memory => {
                Self::out_of_memory(NAME).with_message(refusal.message)
            }
            error => Self::not_ready(NAME, error.to_string()).with_source(error),
        }
    }
}

impl Shared {
    fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error> {
        fork::check()?;
        if layout.align() > CUDA_ALLOCATION_ALIGNMENT {
            let message = format!(
                "alignment {} is above the driver's {CUDA_ALLOCATION_ALIGNMENT}",
                layout.align()
            );
            return Err(Error::invalid_argument(NAME, message));
        }
        let bytes = layout.size().checked_next_multiple_of(self.page);
        let bytes = bytes.ok_or_else(|| Error::out_of_memory(NAME))? as u64;
        self.state().allocate(bytes, self).map_err(Error::from)
    }

    /// Fails if the stream is of another device.
    fn check_device(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        let device = stream.device()?;
        if device == self.device {
            return Ok(());
        }
        let message = format!(
            "the stream is of device {}, and the owner's memory of device {}",
            device.ordinal(),
            self.device.ordinal()
        );
        Err(Error::invalid_argument(NAME, message))
    }
}

impl Leased {
    fn allocate(&mut self, bytes: u64, shared: &Shared) -> Result<DevicePtr, LeaseError> {
        self.last += 1;
        let id = format!("{}-{}", self.prefix, self.last);
        let lease = self.lease()?;
        if lease.lock() == Granted::Read {
            let text = "the session reads: nothing can be allocated after a commit";
            return Err(LeaseError::State(text));
        }
        lease.allocate(&id, bytes)?;
        let mapped = pieces(lease, &id, bytes).and_then(|pieces| {
            Ok(ImportedMemory::map(pieces, shared.device, ImportAccess::ReadWrite)?)
        });
        match mapped {
            Ok(memory) => Ok(self.mappings.add(id, memory, true)),
            Err(error) => {
                // If the session is over, the owner has freed it.
                let _ignored = lease.free(&id);
                Err(error)
            }
        }
    }
}

// SAFETY: each block is memory that the owner made for it under a name of its own, at addresses
// that were reserved for it; the driver aligns them to at least 256 bytes, and larger alignments
// are refused. It stays mapped until it is freed, unless the program has promised that nothing uses
// it (`detach`). Equal handles share the session.
unsafe impl SynchronousResource for LeasedMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let allocate = || self.shared.allocate(layout).map_err(|error| error.with_layout(layout));
        let others = || of_device(self.shared.device, MemoryKind::Device);
        allocate_with(None, layout.size() as u64, allocate, others)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, _layout: Layout) {
        if process_is_exiting() || fork::check().is_err() {
            return;
        }
        let mut state = self.shared.state();
        // One that was found by its name stays.
        let Some(mut mapping) = state.mappings.remove(pointer) else { return };
        // SAFETY: by the caller's contract every use of the block has completed. What the driver
        // refuses to unmap, dropping it tries again.
        let _ignored = unsafe { mapping.memory.unmap() };
        // An owner that has gone has freed it, and what is committed is the owner's.
        if let Some(lease) = state.lease.as_mut().filter(|lease| lease.lock() == Granted::Write) {
            let _ignored = lease.free(&mapping.id);
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties(self).has::<DeviceAccessible>().has_value::<MemoryKind>();
        query.value(|| AccessibleFrom(vec![self.shared.device.as_raw()]));
    }
}

// SAFETY: memory that every stream may use at once is usable by later work, and memory is unmapped
// after the work that used it has completed.
unsafe impl Resource for LeasedMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.shared.check_device(stream).map_err(|error| error.with_layout(layout))?;
        self.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if is_done_or_ended(stream) {
            // SAFETY: the caller's contract; the uses that are ordered before this place on the
            // stream have completed.
            unsafe { self.do_deallocate_sync(pointer, layout) }
        }
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the device has access to a block before it is returned, and keeps it until it is freed.
unsafe impl HasProperty<DeviceAccessible> for LeasedMemoryResource {}

// SAFETY: owners make memory of a device.
unsafe impl HasProperty<MemoryKind> for LeasedMemoryResource {}

impl HasPropertyValue<MemoryKind> for LeasedMemoryResource {
    fn property_value(&self) -> MemoryKind {
        <Self as HasMemoryKind>::KIND
    }
}

// SAFETY: owners make memory of a device.
unsafe impl HasMemoryKind for LeasedMemoryResource {
    const KIND: MemoryKind = MemoryKind::Device;
}
