//! Tests of bins: which bin serves a request, and that every free reaches the same one.

use std::alloc::Layout;

use rmm_adaptors::{ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource};
use rmm_core::{
    AnyResource, Context, HasProperty, HostAccessible, HostDeviceAccessible, Introspect, LimitId,
    PropertyId, Resource, SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource, PinnedHostMemoryResource};

use crate::fixtures::{lazy_machine, pool};
use crate::support::{Pool, free, layout, mib, stream};

fn blocks(bin: &AnyResource) -> &FixedSizeMemoryResource {
    bin.downcast_ref().expect("it has blocks of one size")
}

fn frees(bin: &AnyResource) -> u64 {
    blocks(bin).statistics().frees
}

#[test]
fn each_size_goes_to_the_smallest_bin_that_fits() {
    let (machine, _entered, pool, []) = pool(|builder| builder);
    let binning = BinningMemoryResource::builder(pool.clone());
    let binning = binning.bins_of_powers(10..=12).unwrap().bin(300).unwrap().build();
    let sizes: Vec<u64> = binning.bins().map(|(bytes, _)| bytes).collect();
    assert_eq!(sizes, [512, 1024, 2048, 4096]);
    let stream = stream();
    let aligned = |bytes, align| Layout::from_size_align(bytes, align).unwrap();
    let expected = [
        (layout(1), Some(512)),
        (layout(512), Some(512)),
        (layout(513), Some(1024)),
        (layout(4096), Some(4096)),
        (layout(4097), None),
        (aligned(512, 512), Some(1024)), // with room to align it
        (aligned(4000, 1024), None),
    ];
    for (layout, bytes) in expected {
        let bin = binning.bin_for(layout);
        assert_eq!(bin.map(|bin| blocks(bin).block_size()), bytes, "{layout:?}");
        let before = (bin.map(frees), pool.statistics().frees);
        let pointer = binning.allocate(&stream, layout).unwrap();
        assert!(pointer.0.is_multiple_of(layout.align() as u64));
        // SAFETY: allocated just now with this layout on this stream.
        unsafe { binning.deallocate(&stream, pointer, layout) };
        let after = (bin.map(frees), pool.statistics().frees);
        match bytes {
            Some(_) => assert_eq!(after, (before.0.map(|frees| frees + 1), before.1)),
            None => assert_eq!(after, (None, before.1 + 1), "it was the upstream's"),
        }
    }
    drop((binning, pool));
    machine.assert_no_violations();
}

#[test]
fn a_bin_may_be_any_resource_and_is_kept_alive() {
    let _machine = lazy_machine().enter();
    let stream = stream();
    let own: AnyResource = {
        let pool = Pool::builder(CudaMemoryResource::new()).build().unwrap();
        AnyResource::new(pool)
    };
    let upstream: AnyResource = AnyResource::new(CudaMemoryResource::new());
    let binning = BinningMemoryResource::builder(upstream).bin_of(4096, own).unwrap().build();
    let pointer = binning.allocate(&stream, layout(4000)).unwrap();
    let bin = binning.bin_for(layout(4000)).unwrap();
    assert_eq!(bin.downcast_ref::<Pool>().unwrap().statistics().live_bytes, 4096);
    free(&binning, &stream, pointer, 4000);
}

#[test]
fn invalid_bins_fail() {
    let machine = lazy_machine().enter();
    let builder = || BinningMemoryResource::builder(CudaMemoryResource::new());
    for outcome in [
        builder().bin(0),
        builder().bin(u64::MAX),
        builder().bins_of_powers([usize::BITS]),
        builder().bins_of_powers([127]),
        builder().bin(1000).and_then(|builder| builder.bin(1024)),
    ] {
        let error = outcome.unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
    assert!(builder().bins_of_powers([30]).unwrap_err().is_out_of_memory(), "128 GiB of 64 MiB");
    assert_eq!(machine.leaks().len(), 0);
}

/// Compiles only if the type has the property.
fn claims_host_access<R: HasProperty<HostAccessible>>(_: &R) {}

#[test]
fn its_properties_are_common_to_all_bins_and_upstream() {
    let _machine = lazy_machine().enter();
    let managed = ManagedMemoryResource::new();
    let hosted = BinningMemoryResource::<HostDeviceAccessible>::builder_with_properties(managed);
    let hosted = hosted.bin_of(4096, PinnedHostMemoryResource::new()).unwrap().build();
    claims_host_access(&hosted);
    assert!(hosted.has_property::<HostAccessible>());
    let mixed = BinningMemoryResource::builder(ManagedMemoryResource::new());
    let mixed = mixed.bin_of(4096, CudaMemoryResource::new()).unwrap().build();
    assert!(!mixed.has_property::<HostAccessible>(), "the bin's memory is not the host's");
    assert!(!mixed.property_list().contains(&PropertyId::of::<HostAccessible>()));
    let mixed: AnyResource = AnyResource::new(mixed);
    assert!(mixed.try_widen::<HostDeviceAccessible>().is_err());
}

/// A program that asks which limit to raise means that of the pool below.
#[test]
fn the_limit_of_a_stack_is_not_that_of_its_smallest_bin() {
    let (_machine, _entered, pool, []) = pool(|builder| builder.maximum_size(mib(32)));
    let binning = BinningMemoryResource::builder(pool.clone()).bin(4096).unwrap().build();
    assert_eq!(binning.try_value::<LimitId>(), None);
    let found = binning.stack().find_map(Introspect::try_value::<LimitId>);
    assert_eq!(found, Some(pool.limit_id()));
    assert!(binning.try_value::<Context>().is_some());
}

#[test]
fn handles_to_the_same_bins_are_equal() {
    let _machine = lazy_machine().enter();
    let builder = BinningMemoryResource::builder(CudaMemoryResource::new()).bin(256).unwrap();
    let (one, other) = (builder.clone().build(), builder.build());
    assert_eq!(one, one.clone());
    assert_ne!(one, other);
    assert_eq!(one.name(), "binning");
}

#[test]
fn debug_output_of_suballocators_fits_a_line() {
    let (_machine, _entered, pool, [stream]) = pool(|builder| builder.initial_size(mib(1)));
    let block = pool.allocate(&stream, layout(1000)).unwrap();
    let shown = format!("{pool:?}");
    assert!(shown.starts_with("PoolMemoryResource { live_bytes: 1024, "), "{shown}");
    free(&pool, &stream, block, 1000);
    let arena = ArenaMemoryResource::builder(pool.clone()).arena_size(mib(4)).build().unwrap();
    let binning = BinningMemoryResource::builder(pool).bin(1024).unwrap().build();
    for shown in [format!("{arena:?}"), format!("{binning:?}")] {
        assert!(shown.len() < 500, "{shown}");
    }
}
