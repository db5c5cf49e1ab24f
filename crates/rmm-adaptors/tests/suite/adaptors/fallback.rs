//! The second resource: asked when it should be, and given back what is its own.

use std::error::Error as _;

use rmm_adaptors::{FallbackMemoryResource, LimitingResourceAdaptor, PoolMemoryResource};
use rmm_core::{CudaStream, DevicePtr, Error, Resource, SyncResource};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};
use rmm_sim::Machine;

use super::scripted::{FIRST, Scripted, free_sync};
use crate::short::{free, layout};

/// Two upstreams with other addresses each.
fn two() -> (Scripted, Scripted, FallbackMemoryResource<Scripted, Scripted>) {
    let (first, second) = (Scripted::default(), Scripted::default());
    second.state().next = 1 << 30;
    let resource = FallbackMemoryResource::new(first.clone(), second.clone());
    (first, second, resource)
}

fn refuses(upstream: &Scripted, error: Error) {
    upstream.state().errors.push(error);
}

#[test]
fn each_block_goes_back_to_where_it_came_from() {
    let (first, second, resource) = two();
    let of_first = resource.allocate_sync(layout(100)).unwrap();
    refuses(&first, Error::out_of_memory("first"));
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
fn only_a_lack_of_memory_asks_the_second() {
    let (first, second, resource) = two();
    refuses(&first, Error::unsupported("first", "no"));
    assert!(resource.allocate_sync(layout(1)).unwrap_err().is_unsupported());
    assert!(second.state().asked.is_empty());
    refuses(&first, Error::out_of_memory("first"));
    refuses(&second, Error::out_of_memory("second"));
    let error = resource.allocate_sync(layout(1)).unwrap_err();
    assert_eq!(error.origin(), "second");
    let source = error.source().and_then(|source| source.downcast_ref::<Error>());
    assert_eq!(source.map(Error::origin), Some("first"), "what led to it");
}

/// RMM #2304, of a table that did not exist there.
#[test]
fn an_address_that_is_handed_out_again_before_its_free_returns_is_the_second_s() {
    let (first, second, resource) = two();
    refuses(&first, Error::out_of_memory("first"));
    let block = resource.allocate_sync(layout(100)).unwrap();
    assert_eq!(block, DevicePtr(FIRST + (1 << 30)));
    let (same, asked) = (resource.clone(), first.clone());
    second.reuse_in_free(move || {
        refuses(&asked, Error::out_of_memory("first"));
        assert_eq!(same.allocate_sync(layout(100)).unwrap(), block);
    });
    free_sync(&resource, block, layout(100));
    free_sync(&resource, block, layout(100));
    assert_eq!(second.state().freed.len(), 2);
    assert!(first.state().freed.is_empty());
}

#[test]
fn a_pool_with_a_limit_falls_back_to_managed_memory_in_stream_order() {
    let machine = Machine::new();
    let _entered = machine.enter();
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
