//! A resource that does nothing, to time the layers above it alone.

use std::alloc::Layout;
use std::hint::black_box;

use rmm_core::{
    DeviceAccessible, DevicePtr, Error, HasProperty, Query, Resource, StreamRef,
    SynchronousResource,
};

/// Hands out one address for all blocks, a multiple of 2 MiB. There is no memory, so no caller may
/// use it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Nothing;

const ADDRESS: DevicePtr = DevicePtr(2 << 20);

// SAFETY: it returns an address without memory, which the benchmarks never access.
unsafe impl SynchronousResource for Nothing {
    fn do_allocate_sync(&self, _: Layout) -> Result<DevicePtr, Error> {
        Ok(black_box(ADDRESS))
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, _: Layout) {
        black_box(pointer);
    }

    fn name(&self) -> &'static str {
        "nothing"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties(self).has::<DeviceAccessible>();
    }
}

// SAFETY: as above.
unsafe impl Resource for Nothing {
    fn do_allocate(&self, _: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, _: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.deallocate_sync(pointer, layout) }
    }
}

// SAFETY: as above.
unsafe impl HasProperty<DeviceAccessible> for Nothing {}
