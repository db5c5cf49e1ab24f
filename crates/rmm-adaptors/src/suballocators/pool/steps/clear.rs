//! Clearing blocks before the caller gets them.
//!
//! Every block is cleared, also for the tenant that had it before: to know that, each byte would
//! need an owner that follows it through splits, merges, caches, and pages that go back to the
//! driver and come again.

use std::alloc::Layout;

use rmm_core::{CudaStream, DevicePtr, Error, RelaxedCapture, StreamRef, copy};

use crate::shared::tracked::Caller;
use crate::suballocators::pool::state::core::PoolCore;

impl PoolCore {
    /// Enters a block that the caller gets into the table of [checks](PoolCore::checks), and clears
    /// it, as far as the pool does that.
    #[cold]
    pub(crate) fn finish(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        self.note_handed_out(pointer, layout);
        if self.clears { self.clear(stream, pointer, layout) } else { Ok(pointer) }
    }

    /// Removes a block from the table of checks that is none of a caller any more.
    pub(crate) fn forget_handed_out(&self, pointer: DevicePtr, layout: Layout) {
        if let Some(checks) = &self.checks {
            let known = checks.check_free(pointer, layout);
            debug_assert!(known.is_some(), "it was handed out");
        }
    }

    /// Enters a block into the table of checks, if there is one.
    pub(crate) fn note_handed_out(&self, pointer: DevicePtr, layout: Layout) {
        if let Some(checks) = &self.checks {
            let is_new = checks.insert(pointer, layout, Caller::now);
            debug_assert!(is_new, "a block is handed out once until it is freed");
        }
    }

    /// Fills a block that was allocated just now with zeros: in the order of its stream, or before
    /// this returns. On an error the block is free again.
    ///
    /// # Errors
    /// The driver's.
    #[cold]
    pub(crate) fn clear(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let outcome = match stream {
            Some(stream) => self.clear_in_order(stream, pointer, layout),
            None => self.clear_at_once(pointer, layout),
        };
        outcome.map(|()| pointer).map_err(|error| error.with_layout(layout))
    }

    fn clear_in_order(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> Result<(), Error> {
        let cleared = self.context.enter().and_then(|_context| {
            // SAFETY: the block is as long, and the stream may use it from here on.
            unsafe { copy::fill(pointer, 0, layout.size(), stream) }
        });
        // Behind the fill, should that be running all the same.
        cleared.inspect_err(|_| self.deallocate(Some(stream), pointer, layout))
    }

    fn clear_at_once(&self, pointer: DevicePtr, layout: Layout) -> Result<(), Error> {
        let is_unused = |_: &Error| self.deallocate(None, pointer, layout);
        let _context = self.context.enter().inspect_err(is_unused)?;
        let _relaxed = RelaxedCapture::enter();
        let stream = CudaStream::non_blocking().inspect_err(is_unused)?;
        self.clear_in_order(stream.as_stream_ref(), pointer, layout)?;
        // The fill may be running after an error.
        let behind_it = |_: &Error| self.deallocate(Some(stream.as_stream_ref()), pointer, layout);
        stream.synchronize().inspect_err(behind_it)
    }
}
