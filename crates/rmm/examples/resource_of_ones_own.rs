//! A custom adaptor: it refuses single allocations above a size, and forwards the others. It stacks
//! like those that ship.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

mod device;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm::Error;
use rmm::prelude::*;

#[derive(Clone, Debug)]
struct Capped<R> {
    upstream: R,
    limit: usize,
    /// Shared by clones, which are one resource.
    refused: Arc<AtomicUsize>,
}

rmm::custom::adaptor! {
    Capped<R> over upstream, name = "capped";
    fn allocate(&self, below, layout) {
        if layout.size() > self.limit {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Error::out_of_memory("capped").with_layout(layout));
        }
        below.allocate(layout)
    }
}

fn main() -> Result<(), Error> {
    let _device = device::open();
    let stream = CudaStream::new()?;
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let capped = Capped { upstream: pool.clone(), limit: 1 << 20, refused: Arc::default() };

    let vector = DeviceUVector::from_slice_in(&[1u64; 1000], &stream, &capped)?;
    let error = DeviceBuffer::uninit(2 << 20, &stream, &capped).expect_err("it is too much");
    println!("{error}");
    assert!(error.is_out_of_memory());
    assert_eq!(capped.refused.load(Ordering::Relaxed), 1);

    // The container's resource is type-erased; the resources below it are still found.
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
