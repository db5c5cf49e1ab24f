//! Tests of the mutex adaptor.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_adaptors::ThreadSafeResourceAdaptor;
use rmm_core::{DevicePtr, Error, SynchronousResource};

use super::scripted::{FIRST, free_sync};
use crate::support::layout;

/// An upstream that records whether two threads were ever in it.
#[derive(Debug, Default)]
struct Crowd {
    inside: AtomicU64,
    met: AtomicU64,
}

impl Crowd {
    fn pass(&self) {
        if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.met.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::yield_now();
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

// SAFETY: its memory is never touched.
unsafe impl SynchronousResource for Crowd {
    fn do_allocate_sync(&self, _: Layout) -> Result<DevicePtr, Error> {
        self.pass();
        Ok(DevicePtr(FIRST))
    }

    unsafe fn do_deallocate_sync(&self, _: DevicePtr, _: Layout) {
        self.pass();
    }

    fn name(&self) -> &'static str {
        "crowd"
    }
}

#[test]
fn two_threads_are_never_in_upstream_together() {
    let crowd = Arc::new(Crowd::default());
    let resource = ThreadSafeResourceAdaptor::new(Arc::clone(&crowd));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let block = resource.allocate_sync(layout(64)).unwrap();
                    free_sync(&resource, block, layout(64));
                }
            });
        }
    });
    assert_eq!(crowd.met.load(Ordering::SeqCst), 0);
}
