//! Foreign streams: created and destroyed outside this library.

use rmm_core::{
    CudaStream, Error, Resource, StreamLifetime, check, current_driver, driver_in_context,
};
use rmm_sys::{CuStream, STREAM_NON_BLOCKING};

use super::blocks::{BLOCK_WORDS, keep_busy, stays_intact, take_over};
use crate::{CheckResult, Subject};

/// A stream made and destroyed by calls to the driver.
struct Foreign(CuStream);

impl Foreign {
    fn new() -> Result<Self, Error> {
        let (driver, _) = driver_in_context()?;
        let mut handle = CuStream::NULL;
        // SAFETY: `handle` may be written to.
        let code =
            unsafe { driver.cuStreamCreateWithPriority(&raw mut handle, STREAM_NON_BLOCKING, 0) };
        check("cuStreamCreateWithPriority", code)?;
        Ok(Self(handle))
    }

    fn destroy(self) -> Result<(), Error> {
        let handle = std::mem::ManuallyDrop::new(self).0;
        // SAFETY: the stream was made by `new`, and this is its only end.
        check("cuStreamDestroy_v2", unsafe { current_driver()?.cuStreamDestroy_v2(handle) })
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Ok(driver) = current_driver() {
            // SAFETY: the stream was made by `new`, and this is its only end. A failure means that
            // the driver is gone.
            let _ignored = unsafe { driver.cuStreamDestroy_v2(self.0) };
        }
    }
}

/// Clause 2, and the promises of [`StreamLifetime`]: a foreign stream may be destroyed while blocks
/// freed on it are pooled and its work still runs. A later allocation of these blocks, even on a
/// new stream with the same handle, is ordered after that work.
///
/// In a resource whose capacity is one block of [`BLOCK_WORDS`] words, the same block must be
/// reused.
///
/// # Errors
/// What is wrong.
pub fn adopted_streams_may_be_destroyed<R: Resource>(subject: &Subject<'_, R>) -> CheckResult {
    let errors = subject.counter()?;
    for lifetime in [StreamLifetime::UntilDropped, StreamLifetime::Unknown] {
        for to_namesake in [false, true] {
            let foreign = Foreign::new()?;
            // SAFETY: the stream exists, and is destroyed as its lifetime says, below.
            let adopted = unsafe { CudaStream::adopt(foreign.0, lifetime) }?;
            let given = subject.allocate(&adopted, BLOCK_WORDS)?;
            stays_intact(&given, 0xc000_0000, &errors)?;
            keep_busy(&given)?;
            let pointer = given.pointer();
            drop(given);
            let adopted = match lifetime {
                StreamLifetime::UntilDropped => {
                    drop(adopted);
                    None
                }
                StreamLifetime::Unknown => Some(adopted),
            };
            foreign.destroy()?;
            // Drivers tend to reuse the handle.
            let next = Foreign::new()?;
            // SAFETY: the stream exists until after the last use of `namesake`.
            let namesake = unsafe { CudaStream::adopt(next.0, StreamLifetime::UntilDropped) }?;
            let taker = if to_namesake { &namesake } else { subject.stream() };
            drop(take_over(subject, taker, pointer, BLOCK_WORDS, &errors)?);
            drop(adopted);
            drop(take_over(subject, subject.stream(), pointer, BLOCK_WORDS, &errors)?);
            drop(namesake);
            next.destroy()?;
        }
    }
    Ok(())
}
