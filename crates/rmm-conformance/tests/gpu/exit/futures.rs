//! Futures, one of which was polled.

use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Waker};

use rmm_async::{completed, download, wait_for_abandoned};
use rmm_conformance::Failure;
use rmm_containers::DeviceUVector;
use rmm_core::CudaStream;

use super::program::Held;

pub(super) fn fill() -> Result<Held, Failure> {
    let stream = CudaStream::new()?;
    let mut vector = DeviceUVector::<u32>::zeroed(100, &stream)?;
    for value in 0..100 {
        vector.fill(value)?;
    }
    let mut done = completed(&stream)?;
    let mut context = Context::from_waker(Waker::noop());
    // It is pending on a lazy device.
    let _ignored = Pin::new(&mut done).poll(&mut context);
    let copy = download(vector.as_slice(), &stream)?;
    let _leaked = ManuallyDrop::new(vector);
    let held = Held::new(move || {
        drop((done, copy));
        Ok(())
    });
    // The crate's thread may be in the middle of queries that it began before.
    Ok(Held { settle: wait_for_abandoned, ..held })
}
