//! A tracker of live allocations, for leaks and invalid frees.

mod builder;

use rmm_core::{Description, DevicePtr, Error};

use super::layer::handle;
use super::observer::{AllocatedAs, Call, Observer};
use crate::shared::tracked::{Caller, OutstandingAllocation, Tracking, TrackingReport};

pub use builder::TrackingResourceAdaptorBuilder;

const NAME: &str = "tracking";

handle! {
    /// Records every live block and where in the program it was allocated, to find leaks and
    /// invalid frees.
    ///
    /// Findings go to a function that the program
    /// [sets](TrackingResourceAdaptorBuilder::on_finding), or to the standard error stream:
    ///
    /// * a free of an address that is not allocated, which is passed on to upstream unchanged, and
    ///   counted;
    /// * a free with a layout other than that of the allocation, which is passed on to upstream
    ///   with the layout of the allocation;
    /// * blocks that are live when the last handle is dropped, sorted by size and by call site.
    ///
    /// If upstream returns an address that is still tracked, the block is freed and the request
    /// fails with [`InvalidArgument`](rmm_core::ErrorKind::InvalidArgument): some code frees to
    /// upstream directly.
    ///
    /// It is a handle: clones share the table of live blocks, which is written
    /// without a lock, except while it grows.
    /// Capturing stacks, if enabled, takes microseconds per allocation; symbols are resolved only
    /// when they are displayed.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::TrackingResourceAdaptor;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let tracked = TrackingResourceAdaptor::new(CudaMemoryResource::new());
    /// let (small, large) = (Layout::from_size_align(100, 256)?, Layout::from_size_align(5000, 256)?);
    /// let blocks = [tracked.allocate_sync(small)?, tracked.allocate_sync(large)?];
    /// let left = tracked.outstanding();
    /// assert!(left.iter().map(|block| block.layout.size()).eq([5000, 100]), "the largest first");
    /// assert_eq!(tracked.allocated_bytes(), 5100);
    /// // SAFETY: allocated above with these layouts, and not used.
    /// unsafe { tracked.deallocate_sync(blocks[0], small) };
    /// # // SAFETY: as above.
    /// unsafe { tracked.deallocate_sync(blocks[1], large) };
    /// assert!(tracked.outstanding().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::tracking_resource_adaptor")]
    TrackingResourceAdaptor(Tracking)
}

impl<U> TrackingResourceAdaptor<U> {
    /// Bytes of live blocks, as requested.
    #[doc(alias = "get_allocated_bytes")]
    pub fn allocated_bytes(&self) -> u64 {
        self.inner.layer.bytes()
    }

    /// Frees so far of addresses that were not allocated.
    pub fn unknown_frees(&self) -> u64 {
        self.inner.layer.unknown_frees()
    }

    /// Frees so far with a layout other than that of the allocation.
    pub fn wrong_frees(&self) -> u64 {
        self.inner.layer.wrong_frees()
    }

    /// All live blocks, the largest first. Blocks that other threads allocate or free during the
    /// call may be included or not.
    #[doc(alias = "get_outstanding_allocations")]
    pub fn outstanding(&self) -> Vec<OutstandingAllocation> {
        self.inner.layer.outstanding()
    }

    /// A human-readable report of all live blocks, by size and by call site.
    #[doc(alias = "get_outstanding_allocations_str")]
    #[doc(alias = "log_outstanding_allocations")]
    pub fn report(&self) -> TrackingReport {
        TrackingReport::new(self.outstanding())
    }
}

impl Observer for Tracking {
    const NAME: &'static str = NAME;

    #[inline]
    fn caller(&self) -> Option<Caller> {
        self.captures_callers().then(Caller::with_stack)
    }

    #[inline]
    fn allocated(&self, pointer: DevicePtr, call: Call<'_>) -> Result<(), Error> {
        if self.insert(pointer, call.layout, || {
            call.caller.cloned().unwrap_or_else(Caller::with_stack)
        }) {
            return Ok(());
        }
        let message = format!(
            "upstream returned {pointer:?}, which is still allocated according to the tracker"
        );
        Err(Error::invalid_argument(NAME, message).with_layout(call.layout))
    }

    #[inline]
    fn freeing(&self, pointer: DevicePtr, call: Call<'_>) -> Option<AllocatedAs> {
        // SAFETY: the entry is that of the block, which upstream allocated with this layout.
        self.check_free(pointer, call.layout).map(|layout| unsafe { AllocatedAs::new(layout) })
    }

    fn describe(&self, description: &mut Description) {
        description
            .bytes("live", self.bytes())
            .count("live blocks", self.blocks())
            .count("unknown frees", self.unknown_frees())
            .count("wrong frees", self.wrong_frees());
    }
}
