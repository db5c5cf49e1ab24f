//! Equality of resources: memory from one may be freed by the other, through type erasure too.

use std::sync::Arc;

use rmm_adaptors::{LimitingResourceAdaptor, PoolMemoryResource};
use rmm_core::{
    AnyResource, AnySynchronousResource, DeviceAccessible, DeviceAsyncResourceRef,
    DeviceResourceRef, HasProperty, HostAccessible, HostDeviceAccessible, Resource, ResourceRef,
    Synchronized, SynchronousResourceRef,
};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, HostMemoryResource, current_device_resource,
    set_current_device_resource,
};

use crate::heap::{Silent, SyncHeap};

#[test]
fn erased_resources_are_equal_if_type_and_value_are() {
    let (heap, other) = (SyncHeap::new(0), SyncHeap::new(0));
    let erased = AnySynchronousResource::<HostDeviceAccessible>::new(heap.clone());
    assert!(erased.is_equal(&heap));
    assert!(!erased.is_equal(&other), "the value differs");
    assert!(!erased.is_equal(&Synchronized::new(heap.clone())), "the type differs");
    assert!(
        erased.is_equal(&erased.clone().narrow::<DeviceAccessible>()),
        "the set does not count"
    );
    assert_ne!(erased, AnySynchronousResource::new(other));
}

#[test]
fn equality_holds_in_every_form_both_ways() {
    let cuda = CudaMemoryResource::new();
    let any: AnyResource = AnyResource::new(cuda);
    let any_sync: AnySynchronousResource = any.clone().into();
    let (borrowed, borrowed_sync) = (DeviceAsyncResourceRef::new(&any), any_sync.as_resource_ref());
    assert!(any.is_equal(&cuda) && any.is_equal(&any_sync) && any.is_equal(borrowed));
    assert!(any_sync.is_equal(&cuda) && any_sync.is_equal(&any) && any_sync.is_equal(borrowed));
    assert!(borrowed.is_equal(&cuda) && borrowed.is_equal(&any) && borrowed.is_equal(&any_sync));
    assert!(borrowed_sync.is_equal(&cuda) && borrowed_sync.is_equal(borrowed));
    assert_eq!(DeviceResourceRef::new(&cuda), borrowed_sync);
    assert_eq!(borrowed, any.as_resource_ref());
}

#[test]
fn an_erased_resource_is_never_wrapped_twice() {
    let any: AnyResource = AnyResource::new(CudaMemoryResource::new());
    let again: AnyResource<()> = AnyResource::new(any.clone());
    assert!(again.downcast_ref::<CudaMemoryResource>().is_some());
    let shared: AnyResource = AnyResource::new(Arc::new(any.clone()));
    assert_eq!(shared, any);
    let sync: AnySynchronousResource = AnySynchronousResource::new(Box::new(any.clone()));
    assert!(sync.downcast_ref::<CudaMemoryResource>().is_some());
    let twice: AnySynchronousResource<()> = AnySynchronousResource::new(sync);
    assert!(twice.is_equal(&any));
}

#[test]
fn stateful_resources_are_equal_by_identity() {
    let _machine = rmm_sim::enter();
    let one = CudaAsyncMemoryResource::new().expect("the software device has pools");
    let two = CudaAsyncMemoryResource::new().expect("the software device has pools");
    let erased: AnyResource = AnyResource::of(&one);
    assert!(erased.is_equal(&one.clone()));
    assert!(!erased.is_equal(&two));
}

/// Equal in both directions.
fn assert_equal<T: PartialEq + std::fmt::Debug>(one: &T, other: &T) {
    assert_eq!(one, other);
    assert_eq!(other, one);
}

/// A value that lives as long as the process.
fn leaked<R>(resource: R) -> &'static R {
    Box::leak(Box::new(resource))
}

/// The owned forms of a handle behind pointers, each with its name.
fn forms<R>(handle: &R) -> Vec<(&'static str, AnyResource)>
where
    R: Resource + HasProperty<DeviceAccessible> + Clone + PartialEq + 'static,
{
    let fixed = leaked(handle.clone());
    let any: &AnyResource = leaked(AnyResource::of(handle));
    vec![
        ("&R", AnyResource::new(fixed)),
        ("&&R", AnyResource::new(leaked(fixed))),
        ("Box", AnyResource::new(Box::new(handle.clone()))),
        ("Arc", AnyResource::new(Arc::new(handle.clone()))),
        ("Box<Arc>", AnyResource::new(Box::new(Arc::new(handle.clone())))),
        ("reference", AnyResource::new(DeviceAsyncResourceRef::new(fixed))),
        ("reference to &R", AnyResource::new(DeviceAsyncResourceRef::new(leaked(fixed)))),
        ("any", AnyResource::new(any.clone())),
        ("any, borrowed", AnyResource::new(any.as_resource_ref())),
        ("any, &", AnyResource::new(any)),
        ("Arc<any>", AnyResource::new(Arc::new(any.clone()))),
        ("reference in a Box", AnyResource::new(Box::new(any.as_resource_ref()))),
    ]
}

/// Whatever form a handle took, it is the same resource.
fn stays_itself<R>(handle: &R)
where
    R: Resource + HasProperty<DeviceAccessible> + Clone + PartialEq + 'static,
{
    let own: AnyResource = AnyResource::of(handle);
    for (form, any) in forms(handle) {
        assert_equal(&any, &own);
        assert!(any.is_equal(handle) && any.as_resource_ref().is_equal(handle), "{form}");
        assert!(any.downcast_ref::<R>() == Some(handle), "{form}");
        assert!(any.as_resource_ref().downcast_ref::<R>() == Some(handle), "{form}");
        for (other_form, other) in forms(handle) {
            assert!(any == other, "{form} and {other_form}");
        }
        let sync: AnySynchronousResource = any.clone().into();
        assert!(sync.is_equal(&any) && any.is_equal(&sync), "{form}");
        assert!(sync.downcast_ref::<R>() == Some(handle), "{form}");
        let again = AnySynchronousResource::<()>::new(leaked(sync.clone()).as_resource_ref());
        assert!(again.is_equal(handle), "{form}");
        assert!(again.downcast_ref::<R>() == Some(handle), "{form}");
    }
}

#[test]
fn a_pointer_changes_neither_equality_nor_type() {
    let _machine = rmm_sim::enter();
    stays_itself(&CudaMemoryResource::new());
    stays_itself(&CudaAsyncMemoryResource::new().expect("the software device has pools"));
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    stays_itself(&pool);
    stays_itself(&LimitingResourceAdaptor::new(pool, 1 << 20));
}

#[test]
fn different_resources_differ_behind_pointers() {
    let _machine = rmm_sim::enter();
    let pool = || PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    let (one, other) = (forms(&pool()), forms(&pool()));
    for (form, any) in &one {
        assert!(other.iter().all(|(_, other)| any != other), "{form}");
        assert!(!any.is_equal(&CudaMemoryResource::new()), "{form}");
    }
}

#[test]
fn a_resource_that_is_not_a_handle_stays_behind_its_pointer() {
    let heap = SyncHeap::new(0);
    let fixed = leaked(heap.clone());
    let own = AnySynchronousResource::<HostDeviceAccessible>::new(heap.clone());
    let borrowed = AnySynchronousResource::new(fixed);
    let boxed = AnySynchronousResource::new(Box::new(heap.clone()));
    let reference =
        AnySynchronousResource::new(SynchronousResourceRef::<HostDeviceAccessible>::new(fixed));
    for any in [&borrowed, &boxed, &reference] {
        assert_equal(any, &own);
        assert!(any.is_equal(&heap));
        assert!(any.downcast_ref() == Some(&heap));
        assert!(*any != AnySynchronousResource::new(SyncHeap::new(0)));
    }
    assert_eq!(borrowed, reference, "they point to one object");
    assert_eq!(
        boxed,
        AnySynchronousResource::new(Box::new(heap.clone())),
        "their objects are equal"
    );
    // A reference to an `AnySynchronousResource` can become owned, whatever it holds.
    assert_eq!(leaked(own.clone()).as_resource_ref().try_to_owned().expect("it is owned"), own);
}

#[test]
fn the_registry_returns_the_resource_behind_a_reference() {
    static CUDA: CudaMemoryResource = CudaMemoryResource::new();
    let _machine = rmm_sim::enter();
    let pool = leaked(CudaAsyncMemoryResource::new().expect("the software device has pools"));
    set_current_device_resource(&pool).expect("a device");
    assert_eq!(current_device_resource().expect("a device").downcast_ref(), Some(pool));
    let before = set_current_device_resource(&&CUDA).expect("a device");
    assert!(before.is_equal(pool) && before.downcast_ref() == Some(pool));
    assert!(current_device_resource().expect("a device").is_equal(&CUDA));
}

#[test]
fn a_reference_to_a_handle_can_be_owned() {
    let _machine = rmm_sim::enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    let owned = DeviceAsyncResourceRef::new(&pool).try_to_owned().expect("it is a handle");
    assert!(owned.is_equal(&pool));
    let owned = DeviceResourceRef::new(&pool).try_to_owned().expect("it is a handle");
    assert!(owned.is_equal(&pool));
    let any: AnyResource = AnyResource::new(pool);
    assert_eq!(any.as_resource_ref().try_to_owned().expect("it is owned already"), any);
}

#[test]
fn a_reference_to_a_type_that_is_not_a_handle_cannot_be_owned() {
    let silent = Silent(SyncHeap::new(0));
    let refused = ResourceRef::<HostAccessible>::new(&silent).try_to_owned().unwrap_err();
    assert!(refused.is_invalid_argument());
    assert!(refused.to_string().contains("`silent`"), "{refused}");
    let refused =
        SynchronousResourceRef::<HostAccessible>::new(&silent).try_to_owned().unwrap_err();
    assert!(refused.is_invalid_argument());
    // Unless it is borrowed from an owned resource, which is shared then.
    let any = AnyResource::<HostAccessible>::new(silent.clone());
    let owned = any.as_resource_ref().try_to_owned().expect("it is shared");
    assert!(owned == any && owned.downcast_ref() == Some(&silent));
    assert!(AnyResource::<HostAccessible>::new(HostMemoryResource::new()) != any);
}
