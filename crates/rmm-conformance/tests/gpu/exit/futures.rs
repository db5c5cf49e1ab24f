//! A program that exits with two pending futures of `rmm-async`: one was polled, the other not.

use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Waker};

use rmm_async::{completed, download, wait_for_abandoned};
use rmm_conformance::Failure;
use rmm_containers::DeviceUVector;
use rmm_core::CudaStream;

use super::program::Held;

/// Makes the futures, over a stream with a hundred fills to do.
pub(super) fn fill() -> Result<Held, Failure> {
    let stream = CudaStream::new()?;
    let mut vector = DeviceUVector::<u32>::zeroed(100, &stream)?;
    for value in 0..100 {
        vector.fill(value)?;
    }
    let mut done = completed(&stream)?;
    let mut context = Context::from_waker(Waker::noop());
    // Pending if the device has not run the fills yet; ready is right too.
    let _ignored = Pin::new(&mut done).poll(&mut context);
    let copy = download(vector.as_slice(), &stream)?;
    // Leaked: its drop may wait for the copy, and nothing would be pending then.
    let _leaked = ManuallyDrop::new(vector);
    let held = Held::new(move || {
        drop((done, copy));
        Ok(())
    });
    // The handler checks that dropping the futures calls the driver no more. First it waits for the
    // thread of `rmm-async`, which may be in the middle of a query.
    Ok(Held { settle: wait_for_abandoned, ..held })
}
