//! Workload: allocate/free pairs on a stream that the program made by the driver's own interface.

use rmm_core::{CudaStream, Error, StreamLifetime, check, current_driver};
use rmm_sys::{CuStream, STREAM_NON_BLOCKING};

use super::bench::Bench;
use super::pairs::{layout, pair_count, timed_pairs};
use crate::allocators::Start;
use crate::outcome::Outcome;

/// Adopted with a known end, and with an unknown one.
pub(super) fn foreign(bench: &mut Bench<'_>) -> Outcome {
    let pairs = pair_count(bench);
    let ends =
        [("known end", StreamLifetime::UntilDropped), ("unknown end", StreamLifetime::Unknown)];
    for (end, lifetime) in ends {
        let theirs = RawStream::new()?;
        let (allocator, stream) = (bench.make(Start::Full)?, theirs.adopt(lifetime)?);
        let layout = layout(4 << 10)?;
        let value = bench.median_of(|| timed_pairs(&allocator.resource, &stream, layout, pairs))?;
        bench.row("foreign", end, value, "ns/pair")?;
    }
    Ok(())
}

/// A stream of the driver's interface, of which the crates know nothing.
struct RawStream(CuStream);

impl RawStream {
    fn new() -> Result<Self, Error> {
        let (driver, mut handle) = (current_driver()?, CuStream::NULL);
        // SAFETY: `handle` may be written to.
        let code =
            unsafe { driver.cuStreamCreateWithPriority(&raw mut handle, STREAM_NON_BLOCKING, 0) };
        check("cuStreamCreateWithPriority", code)?;
        Ok(Self(handle))
    }

    fn adopt(&self, lifetime: StreamLifetime) -> Result<CudaStream, Error> {
        // SAFETY: the stream exists, in the current context. Its caller drops the adopted stream
        // before this one. It is never captured.
        unsafe { CudaStream::adopt(self.0, lifetime) }
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        if let Ok(driver) = current_driver() {
            // SAFETY: the stream was made by `new`, and nothing refers to it any more. A failure
            // means that the driver is gone.
            let _ignored = unsafe { driver.cuStreamDestroy_v2(self.0) };
        }
    }
}
