//! Equality means that memory from one may be freed by the other, through erasure too.

use std::sync::Arc;

use rmm_core::{
    AnyResource, AnySyncResource, DeviceAccessible, DeviceAsyncResourceRef, DeviceResourceRef,
    HostDeviceAccessible, Synchronized,
};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};

use crate::heap::SyncHeap;

#[test]
fn erased_resources_are_equal_if_type_and_value_are() {
    let (heap, other) = (SyncHeap::new(0), SyncHeap::new(0));
    let erased = AnySyncResource::<HostDeviceAccessible>::new(heap.clone());
    assert!(erased.is_equal(&heap));
    assert!(!erased.is_equal(&other), "the value differs");
    assert!(!erased.is_equal(&Synchronized::new(heap.clone())), "the type differs");
    assert!(
        erased.is_equal(&erased.clone().narrow::<DeviceAccessible>()),
        "the set does not count"
    );
    assert_ne!(erased, AnySyncResource::new(other));
}

#[test]
fn equality_holds_in_every_form_both_ways() {
    let cuda = CudaMemoryResource::new();
    let any: AnyResource = AnyResource::new(cuda);
    let any_sync: AnySyncResource = any.clone().into();
    let (borrowed, borrowed_sync) = (DeviceAsyncResourceRef::new(&any), any_sync.as_ref());
    assert!(any.is_equal(&cuda) && any.is_equal(&any_sync) && any.is_equal(borrowed));
    assert!(any_sync.is_equal(&cuda) && any_sync.is_equal(&any) && any_sync.is_equal(borrowed));
    assert!(borrowed.is_equal(&cuda) && borrowed.is_equal(&any) && borrowed.is_equal(&any_sync));
    assert!(borrowed_sync.is_equal(&cuda) && borrowed_sync.is_equal(borrowed));
    assert_eq!(DeviceResourceRef::new(&cuda), borrowed_sync);
    assert_eq!(borrowed, any.as_ref());
}

#[test]
fn an_erased_resource_is_never_wrapped_twice() {
    let any: AnyResource = AnyResource::new(CudaMemoryResource::new());
    let again: AnyResource<()> = AnyResource::new(any.clone());
    assert!(again.downcast_ref::<CudaMemoryResource>().is_some());
    let shared: AnyResource = AnyResource::new(Arc::new(any.clone()));
    assert_eq!(shared, any);
    let sync: AnySyncResource = AnySyncResource::new(Box::new(any.clone()));
    assert!(sync.downcast_ref::<CudaMemoryResource>().is_some());
    let twice: AnySyncResource<()> = AnySyncResource::new(sync);
    assert!(twice.is_equal(&any));
}

#[test]
fn stateful_resources_are_equal_by_identity() {
    let machine = rmm_sim::Machine::new();
    let _entered = machine.enter();
    let one = CudaAsyncMemoryResource::new().expect("the software device has pools");
    let two = CudaAsyncMemoryResource::new().expect("the software device has pools");
    let erased: AnyResource = AnyResource::of(&one);
    assert!(erased.is_equal(&one.clone()));
    assert!(!erased.is_equal(&two));
}
