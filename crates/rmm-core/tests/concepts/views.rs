//! Views by the bits of what memory can do.

use std::alloc::Layout;

use rmm_core::{
    AnyResource, Introspect, MemoryCaps, MemoryKind, ResourceView, StreamBound, SyncResource,
    Synchronized,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};

use crate::heap::SyncHeap;

const HOST: u32 = MemoryCaps::HOST_ACCESSIBLE.bits();
const DEVICE: u32 = MemoryCaps::DEVICE_ACCESSIBLE.bits();
const FIXED: u32 = DEVICE | MemoryCaps::RESIDENT.bits();

#[test]
fn a_view_of_an_erased_resource_is_checked_at_run_time() {
    let device: AnyResource = AnyResource::new(CudaMemoryResource::new());
    let view = ResourceView::<FIXED>::try_new(&device).expect("the device's memory is fixed");
    assert_eq!(view.narrow::<DEVICE>().caps(), MemoryCaps::DEVICE_ACCESSIBLE);
    assert_eq!(view.try_property::<MemoryKind>(), Some(MemoryKind::Device));
    assert!(ResourceView::<HOST>::try_new(&device).is_none());
    assert!(ResourceView::<0>::try_new(&SyncHeap::new(0)).is_none(), "its kind is not known");
}

#[test]
fn a_view_allocates_from_the_resource_behind_it() {
    let machine = rmm_sim::Machine::new();
    let _entered = machine.enter();
    let resource = Synchronized::new(CudaMemoryResource::new());
    let view = ResourceView::<DEVICE>::new(&resource);
    let layout = Layout::from_size_align(1000, 256).expect("a valid layout");
    let pointer = view.allocate_sync(layout).expect("the device has memory");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(pointer, layout) };
}

#[test]
fn adaptors_keep_the_kind() {
    let machine = rmm_sim::Machine::new();
    let _entered = machine.enter();
    let pooled = CudaAsyncMemoryResource::new().expect("the software device has pools");
    let stream = rmm_core::CudaStream::new().expect("the software device makes streams");
    let bound = StreamBound::new(pooled, stream);
    let _view = ResourceView::<FIXED>::new(&bound);
    assert_eq!(bound.try_property::<MemoryKind>(), Some(MemoryKind::Device));
}
