//! The limit: what counts, what is refused, and that nothing overflows.

use std::alloc::Layout;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rmm_adaptors::LimitingResourceAdaptor;
use rmm_core::{Error, Resource, StreamRef, SyncResource};

use super::scripted::{Scripted, free_sync};
use crate::short::layout;

#[test]
fn sizes_count_as_rounded_up_and_a_refusal_counts_nothing() {
    let upstream = Scripted::default();
    let limited = LimitingResourceAdaptor::new(upstream.clone(), 1024);
    assert_eq!(limited.allocation_limit(), 1024);
    let small = limited.allocate_sync(layout(1)).unwrap();
    assert_eq!(limited.allocated_bytes(), 256);
    let error = limited.allocate(StreamRef::legacy(), layout(769)).unwrap_err();
    assert!(error.is_out_of_memory());
    assert_eq!(error.stream(), Some(StreamRef::legacy().id()));
    let held = error.usage().expect("it tells the limit");
    assert_eq!((held.limit, held.live, error.requested()), (Some(1024), 256, Some(769)));
    assert_eq!(
        error.to_string(),
        "out of memory: limiting could not allocate 769 B (769 bytes, alignment 256) on stream legacy: 256 B of the limit of 1.0 KiB \
         are in use, and this counts as 1.0 KiB"
    );
    assert_eq!(upstream.state().asked.len(), 1, "a refused request reaches no upstream");
    let rest = limited.allocate_sync(layout(768)).unwrap();
    assert_eq!(limited.allocated_bytes(), 1024);
    free_sync(&limited, rest, layout(768));
    free_sync(&limited, small, layout(1));
    assert_eq!(limited.allocated_bytes(), 0);
}

#[test]
fn what_upstream_refuses_does_not_count() {
    let upstream = Scripted::default();
    let limited = LimitingResourceAdaptor::new(upstream.clone(), 1024);
    upstream.state().errors.push(Error::out_of_memory("scripted"));
    assert_eq!(limited.allocate_sync(layout(1024)).unwrap_err().origin(), "scripted");
    assert_eq!(limited.allocated_bytes(), 0);
    limited.allocate_sync(layout(1024)).unwrap();
}

/// H7, H8.
#[test]
fn a_size_near_the_end_of_all_numbers_is_refused_and_not_wrapped() {
    let upstream = Scripted::default();
    let limited = LimitingResourceAdaptor::new(upstream.clone(), u64::MAX);
    let huge = Layout::from_size_align(isize::MAX as usize - 255, 1).unwrap();
    let blocks = [limited.allocate_sync(huge).unwrap(), limited.allocate_sync(huge).unwrap()];
    // A third would make the sum wrap.
    limited.allocate_sync(huge).unwrap_err();
    assert_eq!(upstream.state().asked.len(), 2);
    for block in blocks {
        free_sync(&limited, block, huge);
    }
    assert_eq!(limited.allocated_bytes(), 0);
    // Rounded up to 2^63 it would be more than there is; to 2^63 twice, it would be 0.
    let coarse = LimitingResourceAdaptor::with_alignment(upstream, u64::MAX, 1 << 63).unwrap();
    let block = coarse.allocate_sync(layout(1)).unwrap();
    coarse.allocate_sync(layout(1)).unwrap_err();
    free_sync(&coarse, block, layout(1));
}

/// H7.
#[test]
fn an_alignment_that_is_no_power_of_two_is_refused() {
    for alignment in [0, 3, 768] {
        let made = LimitingResourceAdaptor::with_alignment(Scripted::default(), 1, alignment);
        assert!(made.unwrap_err().is_invalid_argument(), "{alignment}");
    }
}

/// H7: RMM's counter holds, for a moment, requests that it then refuses, and refuses others for
/// them.
#[test]
fn a_request_that_is_too_large_never_makes_another_fail() {
    let limited = LimitingResourceAdaptor::new(Scripted::default(), 1 << 20);
    let refused = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                limited.allocate_sync(layout(2 << 20)).unwrap_err();
            }
        });
        for _ in 0..20_000 {
            match limited.allocate_sync(layout(1 << 20)) {
                Ok(block) => free_sync(&limited, block, layout(1 << 20)),
                Err(_) => _ = refused.fetch_add(1, Ordering::Relaxed),
            }
        }
    });
    assert_eq!(refused.into_inner(), 0);
    assert_eq!(limited.allocated_bytes(), 0);
}

#[test]
fn upstream_never_has_more_than_the_limit_out() {
    let upstream = Scripted::default();
    let limited = LimitingResourceAdaptor::new(upstream.clone(), 256);
    let block = limited.allocate_sync(layout(256)).unwrap();
    let (same, seen) = (limited.clone(), std::sync::Arc::new(AtomicU64::new(0)));
    let told = seen.clone();
    upstream.reuse_in_free(move || {
        // The block is not back yet.
        told.store(same.allocated_bytes(), Ordering::Relaxed);
    });
    free_sync(&limited, block, layout(256));
    assert_eq!(seen.load(Ordering::Relaxed), 256);
    assert_eq!(limited.allocated_bytes(), 0);
}

/// RMM #1791: the pool's error hid why the upstream had refused.
#[test]
fn a_pool_that_can_not_grow_names_the_limit_that_its_upstream_refused_it_for() {
    let machine = rmm_sim::Machine::new();
    let _entered = machine.enter();
    let limited = LimitingResourceAdaptor::new(rmm_resources::CudaMemoryResource::new(), 1 << 20);
    let pool = rmm_adaptors::PoolMemoryResource::builder(limited).build().unwrap();
    let stream = rmm_core::CudaStream::new().unwrap();
    for error in [
        pool.allocate_sync(layout(2 << 20)).unwrap_err(),
        rmm_core::Resource::allocate(&pool, &stream, layout(2 << 20)).unwrap_err(),
    ] {
        assert_eq!((error.origin(), error.requested()), ("pool", Some(2 << 20)));
        let source = std::error::Error::source(&error).expect("what the upstream said");
        let source = source.downcast_ref::<rmm_core::Error>().expect("the upstream's own error");
        assert_eq!(source.origin(), "limiting");
        assert!(source.to_string().contains("of the limit of 1.0 MiB"), "{source}");
    }
}
