//! What is allocated and by whom: to find leaks and wrong frees.

mod builder;
mod call_site;
mod finding;
mod report;
mod table;

use std::alloc::Layout;

use rmm_core::{Description, DevicePtr, Error};

use crate::layer::{Below, Layer, adaptor};

pub use builder::TrackingResourceAdaptorBuilder;
pub use finding::TrackingFinding;
pub use report::{CallSite, OutstandingAllocation, TrackingReport};
use table::{Freed, Tracking};

const NAME: &str = "tracking";

adaptor! {
    /// Remembers every block that is allocated, and where in the program, until it is freed: to
    /// find leaks and wrong frees.
    ///
    /// What it finds goes to a function that the program
    /// [sets](TrackingResourceAdaptorBuilder::on_finding), or to the standard error stream:
    ///
    /// * a free of an address that is not allocated, which goes to upstream as it is, and is
    ///   counted;
    /// * a free with another layout than that of the allocation, which goes to upstream with the
    ///   one of the allocation;
    /// * blocks that are left when the last handle is dropped, sorted by size and by place.
    ///
    /// Requests of zero bytes are not tracked. Upstream memory at an address that is tracked
    /// already is freed, and the request fails as an [invalid
    /// argument](rmm_core::ErrorKind::InvalidArgument): a block was freed past the tracker.
    ///
    /// It is a handle: clones share the metadata, which is a plain table as long as one thread
    /// alone uses them, and in a concurrent one from the second thread on. Stacks, if they are
    /// captured, cost microseconds; names are looked up only when they are read.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::TrackingResourceAdaptor;
    /// use rmm_core::SyncResource;
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
    /// Tracks without stacks.
    pub fn new(upstream: U) -> Self {
        Self::builder(upstream).build()
    }

    /// Options for one over `upstream`.
    pub fn builder(upstream: U) -> TrackingResourceAdaptorBuilder<U> {
        TrackingResourceAdaptorBuilder::new(upstream)
    }

    /// Bytes allocated now, as asked for.
    #[doc(alias = "get_allocated_bytes")]
    pub fn allocated_bytes(&self) -> u64 {
        self.inner.layer.bytes()
    }

    /// Frees of addresses that were not allocated, so far.
    pub fn unknown_frees(&self) -> u64 {
        self.inner.layer.unknown_frees()
    }

    /// Frees with another layout than that of the allocation, so far.
    pub fn wrong_frees(&self) -> u64 {
        self.inner.layer.wrong_frees()
    }

    /// What is allocated now, the largest first. Blocks that other threads allocate or free
    /// meanwhile may be in it or not.
    #[doc(alias = "get_outstanding_allocations")]
    pub fn outstanding(&self) -> Vec<OutstandingAllocation> {
        self.inner.layer.outstanding()
    }

    /// What is allocated now, by size and by place, for people.
    #[doc(alias = "get_outstanding_allocations_str")]
    #[doc(alias = "log_outstanding_allocations")]
    pub fn report(&self) -> TrackingReport {
        TrackingReport::new(self.outstanding())
    }
}

// SAFETY: every call goes to the upstream; a free with the layout of its allocation, if that is
// known.
unsafe impl Layer for Tracking {
    const NAME: &'static str = NAME;

    #[inline]
    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        let pointer = below.allocate(layout)?;
        if layout.size() == 0 || self.insert(pointer, layout) {
            return Ok(pointer);
        }
        // SAFETY: allocated above with this layout, in the same order, and nobody has it.
        unsafe { below.deallocate(pointer, layout) };
        let message = format!("upstream handed out {pointer:?}, which is tracked already");
        Err(Error::invalid_argument(NAME, message).with_layout(layout))
    }

    #[inline]
    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        let mut allocated = layout;
        if layout.size() > 0 || pointer != DevicePtr::NULL {
            // Before upstream can hand the address out again.
            match self.remove(pointer, layout) {
                Freed::AsAllocated => {}
                Freed::Otherwise(known) => {
                    self.find(&TrackingFinding::WrongFree {
                        pointer,
                        allocated: known,
                        freed: layout,
                    });
                    allocated = known;
                }
                Freed::Unknown => {
                    self.find(&TrackingFinding::UnknownFree { pointer, freed: layout });
                }
            }
        }
        // SAFETY: the caller's contract is the same; where it was broken by the layout, this is the
        // right one.
        unsafe { below.deallocate(pointer, allocated) }
    }

    fn tell(&self, description: &mut Description) {
        description
            .bytes("live", self.bytes())
            .count("live blocks", self.blocks())
            .count("unknown frees", self.unknown_frees())
            .count("wrong frees", self.wrong_frees());
    }
}
