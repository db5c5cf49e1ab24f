//! Tests of the limit: what counts, what fails, and that nothing overflows.

use std::alloc::Layout;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rmm_adaptors::LimitingResourceAdaptor;
use rmm_core::{Error, Resource, StreamRef, SynchronousResource};

use super::scripted::{Scripted, free_sync};
use crate::support::layout;

#[test]
fn sizes_count_rounded_up_and_failures_not_at_all() {
    let upstream = Scripted::default();
    let limited = LimitingResourceAdaptor::new(upstream.clone(), 1024);
    assert_eq!(limited.allocation_limit(), 1024);
    let small = limited.allocate_sync(layout(1)).unwrap();
    assert_eq!(limited.allocated_bytes(), 256);
    let error = limited.allocate(StreamRef::legacy(), layout(769)).unwrap_err();
    assert!(error.is_out_of_memory());
    assert_eq!(error.stream(), Some(StreamRef::legacy().id()));
    let held = error.usage().expect("it has the limit");
    assert_eq!((held.limit, held.live, error.requested()), (Some(1024), 256, Some(769)));
    assert_eq!(
        error.to_string(),
        "out of memory: limiting could not allocate 769 B (769 bytes, alignment 256) on stream legacy: 256 B of the limit of 1.0 KiB \
         are in use, and this counts as 1.0 KiB"
    );
    assert_eq!(upstream.state().asked.len(), 1, "a failed request reaches no upstream");
    let rest = limited.allocate_sync(layout(768)).unwrap();
    assert_eq!(limited.allocated_bytes(), 1024);
    free_sync(&limited, rest, layout(768));
    free_sync(&limited, small, layout(1));
    assert_eq!(limited.allocated_bytes(), 0);
}

#[test]
fn a_failed_upstream_allocation_does_not_count() {
    let upstream = Scripted::default();
    let limited = LimitingResourceAdaptor::new(upstream.clone(), 1024);
    upstream.state().errors.push(Error::out_of_memory("scripted"));
    assert_eq!(limited.allocate_sync(layout(1024)).unwrap_err().origin(), "scripted");
    assert_eq!(limited.allocated_bytes(), 0);
    limited.allocate_sync(layout(1024)).unwrap();
}

/// The padded size must not overflow.
#[test]
fn a_size_near_the_integer_limit_fails_without_wrapping() {
    let upstream = Scripted::default();
    let limited = LimitingResourceAdaptor::new(upstream.clone(), u64::MAX);
    let huge = Layout::from_size_align(isize::MAX as usize - 255, 1).unwrap();
    let blocks = [limited.allocate_sync(huge).unwrap(), limited.allocate_sync(huge).unwrap()];
    // A third would overflow the sum.
    limited.allocate_sync(huge).unwrap_err();
    assert_eq!(upstream.state().asked.len(), 2);
    for block in blocks {
        free_sync(&limited, block, huge);
    }
    assert_eq!(limited.allocated_bytes(), 0);
    // Rounded up to 2^63 the block exceeds any limit; twice 2^63 would wrap to 0.
    let coarse = LimitingResourceAdaptor::with_alignment(upstream, u64::MAX, 1 << 63).unwrap();
    let block = coarse.allocate_sync(layout(1)).unwrap();
    coarse.allocate_sync(layout(1)).unwrap_err();
    free_sync(&coarse, block, layout(1));
}

/// Otherwise the rounding would be wrong.
#[test]
fn an_alignment_must_be_a_power_of_two() {
    for alignment in [0, 3, 768] {
        let made = LimitingResourceAdaptor::with_alignment(Scripted::default(), 1, alignment);
        assert!(made.unwrap_err().is_invalid_argument(), "{alignment}");
    }
}

/// RMM's counter briefly includes requests that then fail, and fails others because of them.
#[test]
fn a_failing_request_never_makes_another_fail() {
    let limited = LimitingResourceAdaptor::new(Scripted::default(), 1 << 20);
    let failed = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                limited.allocate_sync(layout(2 << 20)).unwrap_err();
            }
        });
        for _ in 0..20_000 {
            match limited.allocate_sync(layout(1 << 20)) {
                Ok(block) => free_sync(&limited, block, layout(1 << 20)),
                Err(_) => _ = failed.fetch_add(1, Ordering::Relaxed),
            }
        }
    });
    assert_eq!(failed.into_inner(), 0);
    assert_eq!(limited.allocated_bytes(), 0);
}

#[test]
fn upstream_never_exceeds_the_limit() {
    let upstream = Scripted::default();
    let limited = LimitingResourceAdaptor::new(upstream.clone(), 256);
    let block = limited.allocate_sync(layout(256)).unwrap();
    let (same, seen) = (limited.clone(), std::sync::Arc::new(AtomicU64::new(0)));
    let count = seen.clone();
    upstream.reuse_in_free(move || {
        // The block is still with upstream.
        count.store(same.allocated_bytes(), Ordering::Relaxed);
    });
    free_sync(&limited, block, layout(256));
    assert_eq!(seen.load(Ordering::Relaxed), 256);
    assert_eq!(limited.allocated_bytes(), 0);
}

/// RMM #1791: the pool's error hid the reason of the upstream's.
#[test]
fn a_pool_that_cannot_grow_names_its_upstream_s_limit() {
    let _machine = rmm_sim::enter();
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
