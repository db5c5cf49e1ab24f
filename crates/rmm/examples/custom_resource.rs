//! A resource of one's own: it refuses single allocations above a size, and forwards the others. It
//! stacks as those that ship.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

mod device;

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm::custom::Claims;
use rmm::prelude::*;
use rmm::property::{HasProperty, Property};
use rmm::{DevicePtr, Error};

#[derive(Clone, Debug)]
struct Capped<R> {
    upstream: R,
    limit: usize,
    /// Shared by clones, which are one resource.
    refused: Arc<AtomicUsize>,
}

impl<R> Capped<R> {
    fn check(&self, layout: Layout) -> Result<(), Error> {
        if layout.size() <= self.limit {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Error::out_of_memory("capped").with_layout(layout))
    }
}

/// Equal means that each may free the other's memory.
impl<R: PartialEq> PartialEq for Capped<R> {
    fn eq(&self, other: &Self) -> bool {
        self.upstream == other.upstream
    }
}

// SAFETY: every call that is not refused goes to the upstream, which keeps the contract.
unsafe impl<R: SyncResource> SyncResource for Capped<R> {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.check(layout)?;
        self.upstream.allocate_sync(layout)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "capped"
    }

    fn properties(&self, claims: &mut Claims<'_>) {
        self.upstream.properties(claims);
    }

    fn upstream_resource(&self) -> Option<&(dyn SyncResource + 'static)>
    where
        Self: 'static,
    {
        Some(&self.upstream)
    }
}

// SAFETY: as above.
unsafe impl<R: Resource> Resource for Capped<R> {
    fn allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.check(layout)?;
        self.upstream.allocate(stream, layout)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate(stream, pointer, layout) }
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<P: Property, R: HasProperty<P>> HasProperty<P> for Capped<R> {}

fn main() -> Result<(), Error> {
    let _device = device::open();
    let stream = CudaStream::new()?;
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let capped = Capped { upstream: pool.clone(), limit: 1 << 20, refused: Arc::default() };

    let vector = DeviceUVector::from_slice_in(&[1u64; 1000], &stream, &capped)?;
    let error = DeviceBuffer::uninit_in(2 << 20, &stream, &capped).expect_err("it is too much");
    println!("{error}");
    assert!(error.is_out_of_memory());
    assert_eq!(capped.refused.load(Ordering::Relaxed), 1);

    // The type is forgotten, and what is below is still found.
    let kept = vector.resource();
    assert_eq!(kept.name(), "capped");
    assert!(kept.find::<PoolMemoryResource<CudaMemoryResource>>().is_some());
    drop(vector);
    assert_eq!(pool.statistics().frees, 1);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
