//! Sets of properties: narrowing, widening, and introspection through stacks.

use std::alloc::Layout;
use std::sync::Arc;

use rmm_adaptors::{LoggingResourceAdaptor, PoolMemoryResource};
use rmm_core::{
    AnyResource, AnySynchronousResource, DeviceAccessible, DeviceAsyncResourceRef, DevicePtr,
    DeviceResourceRef, Error, HasProperty, HasPropertyValue, HostAccessible, HostAsyncResourceRef,
    HostDeviceAccessible, HostDeviceAsyncResourceRef, HostResourceRef, Introspect, MemoryCaps,
    MemoryKind, Query, Synchronized, SynchronousResource, SynchronousResourceRef,
};
use rmm_resources::CudaMemoryResource;

use crate::heap::{NumaNode, Silent, SyncHeap};

fn asks_for_host(resource: &impl HasProperty<HostAccessible>) -> &impl HasProperty<HostAccessible> {
    resource
}

#[test]
fn a_set_narrows_to_each_of_its_members_and_widens_back() {
    let heap = Synchronized::new(SyncHeap::new(0));
    let both = AnyResource::<HostDeviceAccessible>::new(heap.clone());
    asks_for_host(&both);
    let host: AnyResource<HostAccessible> = both.clone().into();
    let device: AnyResource<DeviceAccessible> = both.into();
    let both = device.try_widen::<HostDeviceAccessible>().expect("the heap provides both");
    asks_for_host(&both);
    let nothing = host.narrow::<()>();
    let on_node = nothing.try_widen::<NumaNode>().expect("the heap provides its node");
    assert!(on_node.is_equal(&heap));
}

#[test]
fn widening_to_a_missing_property_returns_the_resource() {
    let device: AnyResource = AnyResource::new(CudaMemoryResource::new());
    let device = device.try_widen::<HostDeviceAccessible>().expect_err("the host cannot read it");
    assert_eq!(device.downcast_ref(), Some(&CudaMemoryResource::new()));
    let device = AnySynchronousResource::<DeviceAccessible>::from(device);
    let device = device.try_widen::<HostAccessible>().expect_err("the host cannot read it");
    let borrowed = device.as_resource_ref();
    assert_eq!(borrowed.try_widen::<NumaNode>(), Err(borrowed));
}

#[test]
fn references_convert_as_in_rmm() {
    let heap = Synchronized::new(SyncHeap::new(0));
    let both = HostDeviceAsyncResourceRef::new(&heap);
    let device: DeviceAsyncResourceRef<'_> = both.into();
    let host: HostAsyncResourceRef<'_> = both.into();
    let device_sync: DeviceResourceRef<'_> = both.into();
    let host_sync: HostResourceRef<'_> = host.into();
    assert!(device.is_equal(host));
    assert!(device_sync.is_equal(host_sync.narrow()));
    let again = device.try_widen::<HostDeviceAccessible>().expect("the heap provides both");
    assert_eq!(again, both);
    assert!(DeviceAsyncResourceRef::new_checked(None::<&CudaMemoryResource>).is_err());
}

#[test]
fn property_values_pass_through_erased_resources() {
    let heap = SyncHeap::new(3);
    assert_eq!(heap.property_value(), 3);
    let erased = AnySynchronousResource::<HostDeviceAccessible>::new(heap.clone());
    let logged = LoggingResourceAdaptor::to_writer(Arc::new(erased), std::io::sink())
        .expect("a sink takes everything");
    let stack = AnyResource::<HostDeviceAccessible>::new(Synchronized::new(logged));
    assert_eq!(stack.try_property::<NumaNode>(), Some(3));
    assert_eq!(stack.as_resource_ref().try_property::<NumaNode>(), Some(3));
    assert_eq!(stack.try_property::<MemoryKind>(), None);
    let names: Vec<&str> = stack.property_list().iter().map(|property| property.name()).collect();
    assert_eq!(names, ["host-accessible", "device-accessible", "numa-node"]);
    assert_eq!(stack.accessibility(), MemoryCaps::HOST_ACCESSIBLE | MemoryCaps::DEVICE_ACCESSIBLE);
    let layers: Vec<&str> = stack.stack().map(SynchronousResource::name).collect();
    assert_eq!(layers, ["synchronized", "logging", "sync-heap"]);
    assert_eq!(stack.find::<SyncHeap>(), Some(&heap));
    assert_eq!(stack.as_resource_ref().find::<SyncHeap>(), Some(&heap));
    assert!(stack.find::<CudaMemoryResource>().is_none());
}

#[test]
fn a_pool_is_found_below_an_erased_resource_below_a_logger() {
    type Pool = PoolMemoryResource;
    let _machine = rmm_sim::enter();
    let pool = Pool::builder(CudaMemoryResource::new()).build().expect("no memory is asked for");
    let erased: AnyResource = AnyResource::of(&pool);
    assert_eq!(erased.find::<Pool>(), Some(&pool));
    assert_eq!(erased.find(), Some(&CudaMemoryResource::new()));
    let logged = LoggingResourceAdaptor::to_writer(erased, std::io::sink()).expect("a sink");
    assert_eq!(logged.find::<Pool>(), Some(&pool));
    let logged: AnyResource = AnyResource::new(logged);
    assert_eq!(logged.find::<Pool>(), Some(&pool));
    let upstream = logged.upstream_resource().expect("a logger is over another resource");
    assert_eq!(upstream.name(), "pool");
    assert_eq!(logged.try_property::<MemoryKind>(), Some(MemoryKind::Device));
}

#[test]
fn resources_provide_at_run_time_what_their_types_declare() {
    let heap = SyncHeap::new(0);
    assert!(heap.declares::<HostDeviceAccessible>() && heap.declares::<NumaNode>());
    let cuda = CudaMemoryResource::new();
    assert!(cuda.declares::<DeviceAccessible>() && cuda.declares::<MemoryKind>());
    assert!(!cuda.has_property::<HostAccessible>());
    // `declares` detects a resource that omits a property; erased, it still has the properties of
    // its type.
    let silent = Silent(heap);
    assert!(!silent.declares::<HostAccessible>());
    assert!(AnyResource::<HostAccessible>::new(silent.clone()).has_property::<HostAccessible>());
    let borrowed = SynchronousResourceRef::<HostAccessible>::new(&silent);
    assert!(borrowed.has_property::<HostAccessible>());
    assert!(!borrowed.narrow::<()>().has_property::<HostAccessible>());
}

/// Pinned memory whose resource says so itself, and then has its upstream answer as well.
#[derive(Debug)]
struct PinnedOver<R>(R);

// SAFETY: it hands nothing out.
unsafe impl<R: SynchronousResource> SynchronousResource for PinnedOver<R> {
    fn do_allocate_sync(&self, _: Layout) -> Result<DevicePtr, Error> {
        Err(Error::out_of_memory("pinned-over"))
    }

    unsafe fn do_deallocate_sync(&self, _: DevicePtr, _: Layout) {}

    fn name(&self) -> &'static str {
        "pinned-over"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties(self).has_value::<MemoryKind>();
        query.properties_from(&self.0).common_properties([self.0.as_dyn()]);
    }
}

// SAFETY: it hands nothing out.
unsafe impl<R> HasProperty<MemoryKind> for PinnedOver<R> {}

impl<R> HasPropertyValue<MemoryKind> for PinnedOver<R> {
    fn property_value(&self) -> MemoryKind {
        MemoryKind::Pinned
    }
}

#[test]
fn of_several_values_of_a_property_the_first_counts() {
    let pinned = PinnedOver(CudaMemoryResource::new());
    assert_eq!(pinned.try_property::<MemoryKind>(), Some(MemoryKind::Pinned));
}
