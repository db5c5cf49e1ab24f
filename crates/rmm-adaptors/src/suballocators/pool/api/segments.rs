//! Options for a pool's segments.

#![forbid(unsafe_code)]

use rmm_core::PropertySet;

use super::builder::PoolMemoryResourceBuilder;

impl<S: PropertySet> PoolMemoryResourceBuilder<S> {
    /// Takes memory from upstream in [segments](crate::Segment) of this size: each request to
    /// upstream, and the initial size, is a multiple of it. A larger block lies in several that are
    /// contiguous, over virtual memory, or in one of a multiple of the size. A power of two, of at
    /// least a page of upstream. By default segments
    /// begin small and grow with the pool.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::VirtualMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let builder = PoolMemoryResource::builder(VirtualMemoryResource::new()?);
    /// let pool = builder.segment_size(64 << 20).pinned_segments(true).build()?;
    /// let layout = Layout::from_size_align(100 << 20, 256)?;
    /// let block = pool.allocate_sync(layout)?;
    /// assert_eq!(pool.segments().iter().map(|it| it.bytes()).collect::<Vec<_>>(), [64 << 20; 2]);
    /// // SAFETY: allocated above with this layout, and not used.
    /// unsafe { pool.deallocate_sync(block, layout) };
    /// assert_eq!(pool.trim(0), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.segments.size = Some(bytes);
        self
    }

    /// Whether each block lies within one segment, which is one allocation of the driver, as some
    /// libraries need it for a buffer; not by default. Then the pool does not grow in place over
    /// virtual memory, where blocks may span segments, and takes more memory.
    pub fn single_handle(mut self, single: bool) -> Self {
        self.segments.single_handle = single;
        self
    }

    /// Whether segments stay until the pool's end, so that what is registered stays registered; not
    /// by default. No trim, no sibling and no request gets them, and the pool cannot sleep.
    pub fn pinned_segments(mut self, pinned: bool) -> Self {
        self.segments.pinned = pinned;
        self
    }
}
