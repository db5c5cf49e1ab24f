//! Stream priorities.

use std::ffi::c_int;
use std::ops::RangeInclusive;

use super::StreamRef;
use crate::Error;
use crate::driver::{check, driver_in_context};

/// The priorities of streams of the current device. Lower numbers run first: the range starts with
/// the highest priority and ends with the default, 0. It is 0 alone on a device without priorities.
///
/// ```
/// use rmm_core::{CudaStream, StreamFlags, stream_priority_range};
///
/// # let _machine = rmm_sim::enter();
/// let range = stream_priority_range()?;
/// let urgent = CudaStream::with_flags(StreamFlags::NON_BLOCKING, *range.start())?;
/// assert_eq!(urgent.priority()?, *range.start());
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// # Errors
/// If there is no driver or no device.
#[doc(alias = "cudaDeviceGetStreamPriorityRange")]
pub fn stream_priority_range() -> Result<RangeInclusive<c_int>, Error> {
    let (driver, _) = driver_in_context()?;
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: both may be written to.
    let code = unsafe { driver.cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest) };
    check("cuCtxGetStreamPriorityRange", code)?;
    Ok(greatest..=least)
}

impl StreamRef<'_> {
    /// The stream's priority, see [`stream_priority_range`].
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamGetPriority")]
    pub fn priority(self) -> Result<c_int, Error> {
        let driver = self.driver()?;
        let mut priority = 0;
        // SAFETY: the stream exists while it is borrowed, and `priority` may be written to.
        let code = unsafe { driver.cuStreamGetPriority(self.as_raw(), &raw mut priority) };
        check("cuStreamGetPriority", code)?;
        Ok(priority)
    }
}
