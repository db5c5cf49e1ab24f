//! `ResourceView`.

use std::alloc::Layout;

use rmm_core::sys::CuDeviceAttribute;
use rmm_core::{
    AnyResource, Introspect, MemoryCaps, MemoryKind, ResourceView, Synchronized,
    SynchronousResource,
};
use rmm_resources::{
    CudaAsyncViewMemoryResource, CudaMemoryResource, SamHeadroomMemoryResource,
    SystemMemoryResource,
};

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
}

#[test]
fn memory_without_a_kind_is_viewed_by_its_accessibility() {
    const BOTH: u32 = HOST | DEVICE;
    let heap = SyncHeap::new(0);
    assert_eq!(heap.try_property::<MemoryKind>(), None);
    assert!(ResourceView::<BOTH>::try_new(&heap).is_some());
    assert!(
        ResourceView::<FIXED>::try_new(&heap).is_none(),
        "the heap does not declare it resident"
    );
    let machine = rmm_sim::Machine::builder();
    let _machine = machine.attribute(CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS, 1).enter();
    let system = SystemMemoryResource::new().expect("the device uses memory of the host");
    let headroom = SamHeadroomMemoryResource::new(1 << 20).expect("as above");
    for resource in [&system as &dyn SynchronousResource, &headroom] {
        assert!(ResourceView::<BOTH>::try_new(resource).is_some());
    }
    let device = rmm_core::Device::current().expect("a device");
    let view = CudaAsyncViewMemoryResource::of_default_pool(device).expect("a pool");
    assert!(ResourceView::<DEVICE>::try_new(&view).is_some());
    assert!(ResourceView::<HOST>::try_new(&view).is_none());
}

#[test]
fn a_view_allocates_from_the_resource_behind_it() {
    let _machine = rmm_sim::enter();
    let resource = Synchronized::new(CudaMemoryResource::new());
    let view = ResourceView::<FIXED>::new(&resource);
    assert_eq!(view.try_property::<MemoryKind>(), Some(MemoryKind::Device));
    let layout = Layout::from_size_align(1000, 256).expect("a valid layout");
    let pointer = view.allocate_sync(layout).expect("the device has memory");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(pointer, layout) };
}
