//! Tests of the fallback resource: when the second resource is asked, and which blocks it gets
//! back.

use std::error::Error as _;

use rmm_adaptors::{FallbackMemoryResource, LimitingResourceAdaptor, PoolMemoryResource};
use rmm_core::{CudaStream, DevicePtr, Error, Resource, SynchronousResource};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};

use super::scripted::{FIRST, Scripted, free_sync};
use crate::support::{free, layout};

/// Two upstreams with different addresses.
fn two() -> (Scripted, Scripted, FallbackMemoryResource) {
    let (first, second) = (Scripted::default(), Scripted::default());
    second.state().next = 1 << 30;
    let resource = FallbackMemoryResource::new(first.clone(), second.clone());
    (first, second, resource)
}

fn fail_next(upstream: &Scripted, error: Error) {
    upstream.state().errors.push(error);
}

#[test]
fn each_block_is_freed_to_the_resource_that_allocated_it() {
    let (first, second, resource) = two();
    let of_first = resource.allocate_sync(layout(100)).unwrap();
    fail_next(&first, Error::out_of_memory("first"));
    let of_second = resource.allocate_sync(layout(200)).unwrap();
    let more_of_first = resource.allocate_sync(layout(300)).unwrap();
    assert_eq!((resource.fallback_bytes(), resource.fallbacks()), (200, 1));
    for (block, bytes) in [(more_of_first, 300), (of_second, 200), (of_first, 100)] {
        free_sync(&resource, block, layout(bytes));
    }
    let freed = [(more_of_first, layout(300)), (of_first, layout(100))];
    assert_eq!(first.state().freed, freed);
    assert_eq!(second.state().freed, [(of_second, layout(200))]);
    assert_eq!((resource.fallback_bytes(), resource.fallbacks()), (0, 1));
}

#[test]
fn only_out_of_memory_reaches_the_second_resource() {
    let (first, second, resource) = two();
    fail_next(&first, Error::unsupported("first", "no"));
    assert!(resource.allocate_sync(layout(1)).unwrap_err().is_unsupported());
    assert!(second.state().asked.is_empty());
    fail_next(&first, Error::out_of_memory("first"));
    fail_next(&second, Error::out_of_memory("second"));
    let error = resource.allocate_sync(layout(1)).unwrap_err();
    assert_eq!(error.origin(), "second");
    let source = error.source().and_then(|source| source.downcast_ref::<Error>());
    assert_eq!(source.map(Error::origin), Some("first"), "what led to it");
}

/// RMM #2304, for a table that RMM's adaptor does not have.
#[test]
fn an_address_reused_during_its_free_is_the_second_s() {
    let (first, second, resource) = two();
    fail_next(&first, Error::out_of_memory("first"));
    let block = resource.allocate_sync(layout(100)).unwrap();
    assert_eq!(block, DevicePtr(FIRST + (1 << 30)));
    let (same, asked) = (resource.clone(), first.clone());
    second.reuse_in_free(move || {
        fail_next(&asked, Error::out_of_memory("first"));
        assert_eq!(same.allocate_sync(layout(100)).unwrap(), block);
    });
    free_sync(&resource, block, layout(100));
    free_sync(&resource, block, layout(100));
    assert_eq!(second.state().freed.len(), 2);
    assert!(first.state().freed.is_empty());
}

#[test]
fn a_full_pool_falls_back_to_managed_memory() {
    let machine = rmm_sim::enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().unwrap();
    let limited = LimitingResourceAdaptor::new(pool.clone(), 1 << 20);
    let resource = FallbackMemoryResource::new(limited, ManagedMemoryResource::new());
    let stream = CudaStream::new().unwrap();
    let blocks: Vec<DevicePtr> =
        (0..4).map(|_| resource.allocate(&stream, layout(512 << 10)).unwrap()).collect();
    assert_eq!((resource.fallback_bytes(), resource.fallbacks()), (1 << 20, 2));
    for block in blocks {
        free(&resource, &stream, block, 512 << 10);
    }
    assert_eq!((resource.fallback_bytes(), pool.statistics().live_bytes), (0, 0));
    machine.assert_no_violations();
}
