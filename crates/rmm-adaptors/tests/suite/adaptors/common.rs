//! Tests of what all adaptors share: they are handles, forward the upstream's properties, and show
//! their upstreams.

use rmm_adaptors::{
    AlignedResourceAdaptor, CallbackMemoryResource, FailureCallbackResourceAdaptor,
    FallbackMemoryResource, LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource,
    PrefetchResourceAdaptor, StatisticsResourceAdaptor, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_core::{
    AnyResource, DeviceAccessible, Error, HasMemoryKind, HasProperty, HostAccessible,
    HostDeviceAccessible, Introspect, MemoryKind, Metric, Resource, SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource, PinnedHostMemoryResource};

use crate::support::layout;

/// A handle over pinned memory, and the kind of that memory.
fn is_of_that_kind<R>(make: impl Fn() -> R)
where
    R: Resource + Clone + PartialEq + HasMemoryKind + 'static,
    R: HasProperty<DeviceAccessible> + HasProperty<HostAccessible> + HasProperty<MemoryKind>,
{
    assert_eq!(R::KIND, MemoryKind::Pinned);
    is_a_handle(make);
}

/// A handle over pinned memory, with all properties of that memory.
fn is_a_handle<R>(make: impl Fn() -> R)
where
    R: Resource + Clone + PartialEq + 'static,
    R: HasProperty<DeviceAccessible> + HasProperty<HostAccessible>,
{
    let (resource, other) = (make(), make());
    assert!(resource == resource.clone());
    assert!(resource != other, "{}", resource.name());
    assert_eq!(resource.try_property::<MemoryKind>(), Some(MemoryKind::Pinned));
    assert!(resource.declares::<HostDeviceAccessible>());
    assert!(resource.find::<PinnedHostMemoryResource>().is_some());

    let erased: AnyResource<HostDeviceAccessible> = AnyResource::of(&resource);
    assert!(erased.is_equal(&resource) && !erased.is_equal(&other));
    // A clone frees the other's memory.
    let block = erased.allocate_sync(layout(1000)).expect("memory");
    super::scripted::free_sync(&resource, block, layout(1000));
}

#[test]
fn every_adaptor_is_a_handle_with_upstream_s_properties() {
    let machine = rmm_sim::enter();
    let pinned = PinnedHostMemoryResource::new;
    is_of_that_kind(|| AlignedResourceAdaptor::new(pinned(), 512).unwrap());
    is_of_that_kind(|| FailureCallbackResourceAdaptor::new(pinned(), |_| false));
    is_of_that_kind(|| LimitingResourceAdaptor::new(pinned(), 1 << 20));
    is_of_that_kind(|| LoggingResourceAdaptor::to_writer(pinned(), std::io::sink()).unwrap());
    is_of_that_kind(|| PrefetchResourceAdaptor::new(pinned()));
    is_of_that_kind(|| StatisticsResourceAdaptor::new(pinned()));
    is_of_that_kind(|| TaggedResourceAdaptor::new(pinned()));
    is_of_that_kind(|| ThreadSafeResourceAdaptor::new(pinned()));
    is_of_that_kind(|| TrackingResourceAdaptor::new(pinned()));
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn a_resource_over_two_has_their_common_properties() {
    let mixed =
        FallbackMemoryResource::new(CudaMemoryResource::new(), ManagedMemoryResource::new());
    assert!(mixed.has_property::<DeviceAccessible>() && !mixed.has_property::<HostAccessible>());
    assert!(mixed.declares::<DeviceAccessible>());
    let host = FallbackMemoryResource::<HostDeviceAccessible>::with_properties(
        PinnedHostMemoryResource::new(),
        ManagedMemoryResource::new(),
    );
    assert!(host.declares::<HostDeviceAccessible>());
    assert!(mixed == mixed.clone());
    for of_two_kinds in [&mixed as &dyn SynchronousResource, &host] {
        assert_eq!(of_two_kinds.try_property::<MemoryKind>(), None);
    }
}

#[test]
fn a_resource_over_two_of_one_kind_is_of_that_kind() {
    let _machine = rmm_sim::enter();
    let limited = || LimitingResourceAdaptor::new(PinnedHostMemoryResource::new(), 1 << 20);
    let both = FallbackMemoryResource::<HostDeviceAccessible>::with_properties;
    is_a_handle(|| both(limited(), PinnedHostMemoryResource::new()));
    // If the kind of one is unknown, it may differ.
    let erased = AnyResource::<HostDeviceAccessible>::of(&PinnedHostMemoryResource::new());
    let known = FallbackMemoryResource::new(limited(), erased);
    assert_eq!(
        known.try_property::<MemoryKind>(),
        Some(MemoryKind::Pinned),
        "it knows at run time"
    );
    // SAFETY: the function allocates nothing.
    let unknown = unsafe {
        CallbackMemoryResource::new(|_, _| Err(Error::out_of_memory("test")), |_, _, _| {})
    };
    let unknown = FallbackMemoryResource::new(CudaMemoryResource::new(), unknown);
    assert_eq!(unknown.try_property::<MemoryKind>(), None);
}

#[test]
fn callback_memory_is_device_memory_by_default() {
    // SAFETY: the function allocates nothing.
    let resource = unsafe {
        CallbackMemoryResource::new(|_, _| Err(Error::out_of_memory("test")), |_, _, _| {})
    };
    assert!(resource.declares::<DeviceAccessible>() && resource == resource.clone());
    assert!(!resource.has_property::<HostAccessible>());
    assert_eq!(resource.try_property::<MemoryKind>(), None);
}

#[test]
fn callback_memory_has_the_stated_kind_and_properties() {
    // SAFETY: the function allocates nothing.
    let plain = unsafe {
        CallbackMemoryResource::<HostDeviceAccessible>::with_properties(
            |_, _| Err(Error::out_of_memory("test")),
            |_, _, _| {},
        )
    };
    // SAFETY: the function allocates nothing.
    let managed = unsafe { plain.clone().with_kind(MemoryKind::Managed) };
    assert!(plain.declares::<HostDeviceAccessible>() && plain == managed);
    assert_eq!(plain.try_property::<MemoryKind>(), None);
    let erased = AnyResource::<HostDeviceAccessible>::new(managed);
    assert_eq!(erased.try_property::<MemoryKind>(), Some(MemoryKind::Managed));
    assert!(erased.has_property::<MemoryKind>() && erased.has_property::<HostAccessible>());
    // An adaptor over it has the same properties.
    let limited = LimitingResourceAdaptor::new(erased, 1000);
    assert_eq!(limited.try_property::<MemoryKind>(), Some(MemoryKind::Managed));
}

#[test]
fn a_stack_describes_itself_through_erased_types() {
    let _machine = rmm_sim::enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
        .initial_size(1 << 20)
        .maximum_size(4 << 20)
        .build()
        .unwrap();
    let erased: AnyResource = AnyResource::new(StatisticsResourceAdaptor::new(pool));
    let fallback = FallbackMemoryResource::new(erased.clone(), ManagedMemoryResource::new());
    let top: AnyResource = AnyResource::new(TrackingResourceAdaptor::new(fallback));
    let block = top.allocate_sync(layout(1000)).unwrap();
    let description = top.describe();
    assert_eq!(
        description.to_string(),
        "\
tracking: live 1000 B, live blocks 1, unknown frees 0, wrong frees 0
└─ fallback: from the fallback 0 B, fallbacks 0
   ├─ [fallback] managed
   └─ statistics: live 1000 B, peak 1000 B, total 1000 B, live blocks 1
      └─ pool: live 1.0 KiB, peak live 1.0 KiB, reserved 1.0 MiB, maximum 4.0 MiB
         └─ cuda"
    );
    assert_eq!(description.metric("live"), Some(&Metric::Bytes(1000)));
    assert_eq!(description.below().next().map(rmm_core::Description::name), Some("fallback"));
    assert!(format!("{top:?}").contains("StatisticsResourceAdaptor"), "{top:?}");
    super::scripted::free_sync(&top, block, layout(1000));
}
