//! A resource that records which device is current at each call.

use std::alloc::Layout;
use std::sync::{Arc, Mutex, PoisonError};

use rmm_core::{
    Device, DeviceAccessible, DevicePtr, Error, HasProperty, Query, Resource, StreamRef,
    SynchronousResource,
};
use rmm_resources::CudaMemoryResource;

const UPSTREAM: CudaMemoryResource = CudaMemoryResource::new();

/// The driver's allocator, with a note of the device that was current at each call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness(Arc<Mutex<Vec<usize>>>);

impl Witness {
    /// The numbers of the devices, in the order of the calls.
    pub(crate) fn seen(&self) -> Vec<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self) {
        let current = Device::current().map_or(usize::MAX, Device::ordinal);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(current);
    }
}

impl PartialEq for Witness {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

// SAFETY: the upstream's contract; nothing is changed on the way.
unsafe impl SynchronousResource for Witness {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.note();
        UPSTREAM.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.note();
        // SAFETY: the caller's contract.
        unsafe { UPSTREAM.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "witness"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties(self).has::<DeviceAccessible>();
    }
}

// SAFETY: as above.
unsafe impl Resource for Witness {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, _stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; upstream waits for the device.
        unsafe { self.deallocate_sync(pointer, layout) }
    }
}

// SAFETY: the upstream's memory is the device's.
unsafe impl HasProperty<DeviceAccessible> for Witness {}
