//! The end of a reservation before its last handle is dropped: for languages where no one knows
//! when that is.

use rmm_core::{PropertySet, fork};

use super::Reservation;

impl<S: PropertySet> Reservation<S> {
    /// Returns what [remains](Self::remaining) to the pool now, also if others have handles.
    /// Returns the bytes. Blocks that were allocated from the reservation stay allocated; further
    /// requests are refused.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let reservation = pool.reserve(3 << 20)?;
    /// let other = reservation.clone();
    /// assert_eq!((other.release(), other.release()), (3 << 20, 0));
    /// assert_eq!((reservation.remaining(), pool.statistics().live_bytes), (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(&self) -> u64 {
        let mut rest = fork::lock(&self.inner.rest);
        let bytes = std::mem::take(&mut rest.bytes);
        if bytes > 0 {
            // With `bytes` 0, no one frees it again.
            self.inner.pool.inner.core.return_reserved(rest.start);
        }
        bytes
    }
}
