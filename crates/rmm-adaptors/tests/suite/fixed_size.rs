//! Tests of the fixed-size resource: which requests it serves, growth, and stream order.

use std::alloc::Layout;

use rmm_adaptors::{FixedSizeMemoryResource, GrowthPolicy};
use rmm_core::{HostAccessible, Introspect, Resource, SynchronousResource};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};

use crate::fixtures::lazy_machine;
use crate::support::{Pool, free, layout, stream};

type Blocks = FixedSizeMemoryResource;

fn blocks(size: u64, count: usize) -> Blocks {
    let builder = Blocks::builder(CudaMemoryResource::new()).block_size(size);
    builder.blocks(count).build().expect("the device has the memory")
}

#[test]
fn every_request_gets_a_whole_block() {
    let _machine = lazy_machine().enter();
    let blocks = blocks(1000, 8);
    assert_eq!(blocks.block_size(), 1024, "rounded up to 256");
    let stream = stream();
    let pointers: Vec<_> = [1, 256, 1000, 1024, 5, 6, 7, 8]
        .map(|bytes| (blocks.allocate(&stream, layout(bytes)).unwrap(), bytes))
        .into();
    let mut addresses: Vec<u64> = pointers.iter().map(|(pointer, _)| pointer.0).collect();
    addresses.sort_unstable();
    assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] == 1024), "{addresses:x?}");
    let statistics = blocks.statistics();
    assert_eq!((statistics.reserved_bytes, statistics.upstream_allocations), (8 * 1024, 1));
    for (pointer, bytes) in pointers {
        free(&blocks, &stream, pointer, bytes);
    }
    assert_eq!(blocks.statistics().live_bytes, 0);
}

#[test]
fn growth_adds_the_initial_number_of_blocks() {
    let _machine = lazy_machine().enter();
    let (blocks, stream) = (blocks(4096, 4), stream());
    let pointers: Vec<_> =
        (0..9).map(|_| blocks.allocate(&stream, layout(4096)).unwrap()).collect();
    assert_eq!(blocks.statistics().reserved_bytes, 12 * 4096);
    for pointer in pointers {
        free(&blocks, &stream, pointer, 4096);
    }
    stream.synchronize().unwrap();
    assert_eq!(blocks.trim(0), 12 * 4096, "all of it can be returned");
}

#[test]
fn a_request_that_fits_no_block_fails_with_the_reason() {
    let _machine = lazy_machine().enter();
    let (blocks, stream) = (blocks(4096, 4), stream());
    let aligned = |bytes, align| Layout::from_size_align(bytes, align).unwrap();
    for layout in [layout(4097), aligned(4096, 512), aligned(1, 8192), aligned(1 << 62, 256)] {
        assert!(!blocks.fits(layout));
        let error = blocks.allocate(&stream, layout).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
        let source = std::error::Error::source(&error).expect("a reason").to_string();
        assert!(source.ends_with("are more than a block's 4096"), "{source}");
    }
    let fitting = aligned(4096 - 768, 1024);
    assert!(blocks.fits(fitting));
    let pointer = blocks.allocate(&stream, fitting).unwrap();
    assert!(pointer.0.is_multiple_of(1024));
    // SAFETY: allocated just now with this layout on this stream.
    unsafe { blocks.deallocate(&stream, pointer, fitting) };
}

#[test]
fn the_smallest_block_size_limits_requests_too() {
    let _machine = lazy_machine().enter();
    let (blocks, stream) = (blocks(256, 4), stream());
    let error = blocks.allocate(&stream, layout(257)).unwrap_err();
    let source = std::error::Error::source(&error).expect("a reason").to_string();
    assert!(source.ends_with("are more than a block's 256"), "{source}");
    let pointers = [(); 5].map(|()| blocks.allocate(&stream, layout(256)).unwrap());
    assert_eq!(blocks.statistics().reserved_bytes, 8 * 256, "it grows by four blocks");
    for pointer in pointers {
        free(&blocks, &stream, pointer, 256);
    }
}

#[test]
fn invalid_sizes_fail() {
    let machine = lazy_machine().enter();
    let builder = || Blocks::builder(CudaMemoryResource::new()).block_size(4096).blocks(4);
    for builder in [
        builder().block_size(0),
        builder().blocks(0),
        builder().block_size(u64::MAX),
        builder().blocks(usize::MAX),
        builder().maximum_size(3 * 4096),
    ] {
        let error = builder.build().unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
    assert!(builder().blocks(1 << 20).build().unwrap_err().is_out_of_memory(), "4 GiB of 64 MiB");
    assert_eq!(machine.leaks().len(), 0);
}

#[test]
fn its_memory_has_the_properties_of_its_upstream() {
    let _machine = lazy_machine().enter();
    let managed = FixedSizeMemoryResource::builder(ManagedMemoryResource::new()).blocks(1);
    let managed = managed.build().unwrap();
    assert!(managed.has_property::<HostAccessible>());
    assert!(!blocks(4096, 1).has_property::<HostAccessible>());
    assert_eq!(managed.clone(), managed);
    assert_eq!(managed.name(), "fixed-size");
}

#[test]
fn a_pool_grows_as_its_policy_says() {
    let _machine = lazy_machine().enter();
    let reserved = |policy, bytes: &[usize]| {
        let (pool, stream) = (Pool::builder(CudaMemoryResource::new()), stream());
        let pool = pool.growth(policy).build().unwrap();
        let live: Vec<_> = bytes
            .iter()
            .map(|&bytes| (pool.allocate(&stream, layout(bytes)).unwrap(), bytes))
            .collect();
        let reserved = pool.reserved_bytes();
        for (pointer, bytes) in live {
            free(&pool, &stream, pointer, bytes);
        }
        reserved
    };
    assert_eq!(reserved(GrowthPolicy::Exact, &[1000, 5000]), 1024 + 5120);
    assert_eq!(reserved(GrowthPolicy::FixedStep(4096), &[1000, 3000]), 4096);
    assert_eq!(reserved(GrowthPolicy::FixedStep(4096), &[1000, 5000]), 4096 + 8192);
    for policy in [GrowthPolicy::FixedStep(0), GrowthPolicy::FixedStep(1000)] {
        let error = Pool::builder(CudaMemoryResource::new()).growth(policy).build().unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
}
