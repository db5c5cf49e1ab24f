//! A pool of blocks of one size.

use std::alloc::Layout;

use rmm_core::{
    AnyResource, Contains, DeviceAccessible, DevicePtr, Error, HasProperty, LimitId, Property,
    PropertySet, Query, Resource, SatisfiedBy, StreamRef, Structure, SynchronousResource,
};

use super::pool::{CachePolicy, padded_size};
use crate::shared::with_properties::{WithProperties, provide_views};
use crate::{GrowthPolicy, PoolMemoryResource, PoolMemoryResourceBuilder, PoolStatistics};

/// Sizes and addresses are multiples of this.
const GRANULE: u64 = rmm_core::CUDA_ALLOCATION_ALIGNMENT as u64;

/// Allocates fixed-size blocks in stream order, without calling the driver. Each request of at most
/// the block size gets a whole block.
///
/// Blocks are reused in the same order and by the same steps as those of a [`PoolMemoryResource`].
/// It grows by the initial number of blocks. Blocks are never split or coalesced, so memory for n
/// blocks always serves n requests. A request that does not fit a block, including padding for an
/// alignment above 256, fails; [`BinningMemoryResource`](crate::BinningMemoryResource) sends such
/// requests to another resource.
///
/// It is a handle: clones share one state, which returns its memory to upstream when the last clone
/// is dropped. Any thread may use it.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::FixedSizeMemoryResource;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let builder = FixedSizeMemoryResource::builder(CudaMemoryResource::new());
/// let blocks = builder.block_size(4096).blocks(16).build()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(100, 256)?;
/// let (a, b) = (blocks.allocate(&stream, layout)?, blocks.allocate(&stream, layout)?);
/// assert_eq!(b.0 - a.0, 4096);
/// # for pointer in [a, b] {
/// #     // SAFETY: allocated above with this layout on this stream.
/// #     unsafe { blocks.deallocate(&stream, pointer, layout) };
/// # }
/// let large = blocks.allocate(&stream, Layout::from_size_align(4097, 256)?);
/// assert!(large.unwrap_err().is_out_of_memory());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::fixed_size_memory_resource")]
#[derive(Clone, Debug)]
#[repr(C)]
pub struct FixedSizeMemoryResource<S: PropertySet = DeviceAccessible> {
    pool: PoolMemoryResource<S>,
    block_size: u64,
}

/// Options for a [`FixedSizeMemoryResource`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct FixedSizeMemoryResourceBuilder<S: PropertySet = DeviceAccessible> {
    pool: PoolMemoryResourceBuilder<S>,
    block_size: u64,
    blocks: usize,
}

impl<S: PropertySet> FixedSizeMemoryResourceBuilder<S> {
    /// Bytes of a block; 1 MiB by default. Rounded up to a multiple of 256.
    #[doc(alias = "default_block_size")]
    pub fn block_size(mut self, bytes: u64) -> Self {
        self.block_size = bytes;
        self
    }

    /// How many blocks to allocate from upstream, initially and whenever the free list is empty;
    /// 128 by default. Over an upstream that allocates whole pages, as many as fit into the
    /// pages that hold `count` blocks.
    #[doc(alias = "blocks_to_preallocate")]
    #[doc(alias = "default_blocks_to_preallocate")]
    pub fn blocks(mut self, count: usize) -> Self {
        self.blocks = count;
        self
    }

    /// The most bytes to allocate from upstream, a multiple of 256, rounded down to whole pages of
    /// upstream; no limit by default.
    pub fn maximum_size(mut self, bytes: u64) -> Self {
        self.pool = self.pool.maximum_size(bytes);
        self
    }

    /// Builds the resource and allocates its first blocks from upstream, for the current device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the block size or
    /// the number of blocks is zero, or their product exceeds the address space or the maximum
    /// size, or that has no room for the pages of a block; the upstream's error if it cannot
    /// allocate the blocks.
    pub fn build(self) -> Result<FixedSizeMemoryResource<S>, Error> {
        let Self { pool, block_size, blocks } = self;
        let invalid = |message: &str| Error::invalid_argument("fixed-size", message);
        if block_size == 0 || blocks == 0 {
            return Err(invalid("the block size and the number of blocks must not be zero"));
        }
        let block = block_size.checked_next_multiple_of(GRANULE);
        let Some((block, step)) =
            block.and_then(|block| Some((block, block.checked_mul(blocks as u64)?)))
        else {
            return Err(invalid("the blocks exceed the address space"));
        };
        let pool = pool.initial_size(step).growth(GrowthPolicy::FixedStep(step));
        let pool = pool.build_of("fixed-size", Some(block), CachePolicy::OneSize(block))?;
        pool.announce();
        Ok(FixedSizeMemoryResource { pool, block_size: block })
    }
}

impl FixedSizeMemoryResource {
    /// Options for a resource over `upstream`, whose memory the device may use.
    pub fn builder<U>(upstream: U) -> FixedSizeMemoryResourceBuilder
    where
        U: Resource + HasProperty<DeviceAccessible> + PartialEq + 'static,
    {
        Self::builder_with_properties(upstream)
    }
}

impl<S: PropertySet> FixedSizeMemoryResource<S> {
    /// Options for a resource over memory that has every property in `S`, as
    /// [`PoolMemoryResource::builder_with_properties`].
    pub fn builder_with_properties<U>(upstream: U) -> FixedSizeMemoryResourceBuilder<S>
    where
        U: Resource + PartialEq + 'static,
        S: SatisfiedBy<U>,
    {
        Self::builder_from(AnyResource::new(upstream))
    }

    pub(crate) fn builder_from(upstream: AnyResource<S>) -> FixedSizeMemoryResourceBuilder<S> {
        FixedSizeMemoryResourceBuilder {
            pool: PoolMemoryResourceBuilder::new(upstream),
            block_size: 1 << 20,
            blocks: 128,
        }
    }

    /// Bytes of a block, a multiple of 256.
    #[doc(alias = "get_block_size")]
    pub fn block_size(&self) -> u64 {
        self.block_size
    }

    /// Whether a block fits this layout.
    pub fn fits(&self, layout: Layout) -> bool {
        padded_size(layout).is_some_and(|size| size <= self.block_size)
    }

    /// The upstream resource.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(&self) -> &AnyResource<S> {
        self.pool.upstream()
    }

    /// Counters of the resource so far. Live bytes are those of whole blocks.
    pub fn statistics(&self) -> PoolStatistics {
        self.pool.statistics()
    }

    /// Returns unused upstream blocks, as [`PoolMemoryResource::trim`] does.
    pub fn trim(&self, keep: u64) -> u64 {
        self.pool.trim(keep)
    }

    /// Returns idle memory, as [`trim`](Self::trim) does, after a wait for pending frees: see
    /// [`PoolMemoryResource::trim_blocking`].
    pub fn trim_blocking(&self, keep: u64) -> u64 {
        self.pool.trim_blocking(keep)
    }

    /// Changes the maximum size, or lifts it: [`PoolMemoryResource::set_maximum_size`].
    ///
    /// # Errors
    /// As there.
    pub fn set_maximum_size(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        self.pool.set_maximum_size(bytes)
    }

    /// The identity of the resource in errors and remedies: [`Error::limit_id`].
    pub fn limit_id(&self) -> LimitId {
        self.pool.limit_id()
    }
}

impl<S: PropertySet> PartialEq for FixedSizeMemoryResource<S> {
    /// Whether both are handles to one state.
    fn eq(&self, other: &Self) -> bool {
        self.pool == other.pool
    }
}

impl<S: PropertySet> Eq for FixedSizeMemoryResource<S> {}

// SAFETY: every call goes to the pool, which keeps the contract.
unsafe impl<S: PropertySet> SynchronousResource for FixedSizeMemoryResource<S> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.pool.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the memory is the pool's.
        unsafe { self.pool.do_deallocate_sync(pointer, layout) };
    }

    fn name(&self) -> &'static str {
        self.pool.name()
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        self.pool.structure()
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        provide_views(self, query).describe(|description| {
            description.bytes("block size", self.block_size);
        });
        self.pool.provide_state(query);
    }
}

// SAFETY: every call goes to the pool, which keeps the contract.
unsafe impl<S: PropertySet> Resource for FixedSizeMemoryResource<S> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.pool.do_allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the memory is the pool's.
        unsafe { self.pool.do_deallocate(stream, pointer, layout) };
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the memory is the pool's.
unsafe impl<S: Contains<P>, P: Property> HasProperty<P> for FixedSizeMemoryResource<S> {}

// SAFETY: the layout is that of C, and of the fields only the pool depends on the set, for which
// the same holds.
unsafe impl<S: PropertySet> WithProperties for FixedSizeMemoryResource<S> {
    type With<T: PropertySet> = FixedSizeMemoryResource<T>;
}
