//! Size bins: each request goes to the resource for its size.

use std::alloc::Layout;
use std::sync::Arc;

use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    AnyResource, DevicePtr, Error, HasMemoryKind, HasProperty, Introspect, MemoryCaps, MemoryKind,
    Property, Request, Resource, StreamRef, SyncResource,
};

use crate::FixedSizeMemoryResource;
use crate::pool::padded_size;

/// Sends each request to the smallest bin that fits it, or to the upstream if none does.
///
/// A bin is a resource and the largest size that it serves: a [`FixedSizeMemoryResource`] over the
/// upstream, or any other resource. The bins are owned by the resource and fixed when it is built,
/// so a free always finds the bin of its allocation. Sizes are rounded up to 256 bytes and include
/// padding for alignments above 256.
/// It is a handle: clones share the bins. Finding the bin takes O(log n) in the number of bins; the
/// rest of the cost is the bin's.
///
/// Its memory has a property if the memory of the upstream and of all bins has it.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::{BinningMemoryResource, PoolMemoryResource};
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
/// let binning = BinningMemoryResource::builder(pool).bins_of_powers(18..=22)?.build();
/// assert!(binning.bins().map(|(bytes, _)| bytes).eq((18..=22).map(|power| 1 << power)));
///
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(300_000, 256)?;
/// let pointer = binning.allocate(&stream, layout)?; // a block of 512 KiB
/// # // SAFETY: allocated above with this layout on this stream.
/// # unsafe { binning.deallocate(&stream, pointer, layout) };
/// assert_eq!(binning.bin_for(layout).map(|bin| bin.statistics().frees), Some(1));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::binning_memory_resource")]
#[derive(Debug)]
pub struct BinningMemoryResource<U, B = FixedSizeMemoryResource<U>>
where
    U: SyncResource,
{
    inner: Arc<Inner<U, B>>,
}

#[derive(Debug)]
struct Inner<U, B> {
    /// # Invariant
    /// Sorted by the largest request of each bin, strictly ascending; all multiples of 256.
    bins: Box<[(u64, B)]>,
    upstream: U,
}

/// Options for a [`BinningMemoryResource`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct BinningMemoryResourceBuilder<U, B = FixedSizeMemoryResource<U>> {
    upstream: U,
    bins: Vec<(u64, B)>,
}

impl<U: SyncResource, B> BinningMemoryResourceBuilder<U, B> {
    /// Adds a bin for requests of up to `bytes` bytes, rounded up to a multiple of 256, that no
    /// smaller bin fits; `bin` serves them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if there already is a
    /// bin of that size, or the size is 0 or too large.
    #[doc(alias = "add_bin")]
    pub fn bin_of(mut self, bytes: u64, bin: B) -> Result<Self, Error> {
        let size = bin_size(bytes)?;
        match self.bins.binary_search_by_key(&size, |&(size, _)| size) {
            Ok(_) => Err(invalid(format!("a bin of {size} bytes exists already"))),
            Err(place) => {
                self.bins.insert(place, (size, bin));
                Ok(self)
            }
        }
    }

    /// Builds the resource.
    pub fn build(self) -> BinningMemoryResource<U, B> {
        let Self { upstream, bins } = self;
        BinningMemoryResource { inner: Arc::new(Inner { bins: bins.into(), upstream }) }
    }
}

impl<U: SyncResource + Clone + 'static> BinningMemoryResourceBuilder<U> {
    /// Adds a bin of fixed-size blocks of `bytes` bytes, allocated from the upstream 128 at a time.
    ///
    /// # Errors
    /// As [`bin_of`](Self::bin_of), and the upstream's error if it cannot allocate the blocks.
    pub fn bin(self, bytes: u64) -> Result<Self, Error> {
        let size = bin_size(bytes)?;
        let blocks = FixedSizeMemoryResource::builder(self.upstream.clone());
        let blocks = blocks.block_size(size).build()?;
        self.bin_of(size, blocks)
    }

    /// Adds a [`bin`](Self::bin) of 2^n bytes for each n.
    ///
    /// # Errors
    /// As [`bin`](Self::bin).
    #[doc(alias = "min_size_exponent")]
    #[doc(alias = "max_size_exponent")]
    pub fn bins_of_powers(self, powers: impl IntoIterator<Item = u32>) -> Result<Self, Error> {
        powers.into_iter().try_fold(self, |builder, power| {
            let bytes = 1_u64
                .checked_shl(power)
                .ok_or_else(|| invalid(format!("2^{power} bytes exceed the address space")))?;
            builder.bin(bytes)
        })
    }
}

fn bin_size(bytes: u64) -> Result<u64, Error> {
    let size = bytes.checked_next_multiple_of(rmm_core::CUDA_ALLOCATION_ALIGNMENT as u64);
    size.filter(|&size| size > 0)
        .ok_or_else(|| invalid(format!("{bytes} bytes is not a valid bin size")))
}

fn invalid(message: String) -> Error {
    Error::invalid_argument("binning", message)
}

impl<U: SyncResource> BinningMemoryResource<U> {
    /// A builder without bins over `upstream`, for bins of blocks from the upstream.
    pub fn builder(upstream: U) -> BinningMemoryResourceBuilder<U> {
        Self::builder_of(upstream)
    }
}

impl<U: SyncResource, B> BinningMemoryResource<U, B> {
    /// A builder without bins over `upstream`, for bins of type `B`, which may be [`AnyResource`].
    pub fn builder_of(upstream: U) -> BinningMemoryResourceBuilder<U, B> {
        BinningMemoryResourceBuilder { upstream, bins: Vec::new() }
    }

    /// The resource that serves requests that fit no bin.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(&self) -> &U {
        &self.inner.upstream
    }

    /// The bins with the largest size that each serves, in ascending order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, &B)> {
        self.inner.bins.iter().map(|(size, bin)| (*size, bin))
    }

    /// The bin that serves a layout; `None` if the upstream does.
    pub fn bin_for(&self, layout: Layout) -> Option<&B> {
        let size = padded_size(layout)?;
        let place = self.inner.bins.partition_point(|&(bytes, _)| bytes < size);
        self.inner.bins.get(place).map(|(_, bin)| bin)
    }
}

impl<U: SyncResource + 'static, B: SyncResource + 'static> BinningMemoryResource<U, B> {
    /// Returns free memory of the bins and then of the upstream, if those are suballocators, until
    /// each has no more than `keep` bytes reserved or no more can be returned. Returns the bytes
    /// that left the stack, as [`Introspect::trim_stack`].
    ///
    /// ```
    /// use rmm_adaptors::{BinningMemoryResource, PoolMemoryResource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let binning = BinningMemoryResource::builder(pool.clone()).bin(64 << 10)?.build();
    /// assert_eq!(pool.reserved_bytes(), 8 << 20); // the bin's 128 blocks
    /// assert_eq!(binning.trim(0), 8 << 20);
    /// assert_eq!(pool.reserved_bytes(), 0);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "cudaMemPoolTrimTo")]
    pub fn trim(&self, keep: u64) -> u64 {
        self.trim_stack(keep)
    }

    /// As [`trim`](Self::trim), after a wait for pending frees, as
    /// [`Introspect::trim_stack_blocking`].
    pub fn trim_blocking(&self, keep: u64) -> u64 {
        self.trim_stack_blocking(keep)
    }
}

impl<U: SyncResource, B> Clone for BinningMemoryResource<U, B> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<U: SyncResource, B> PartialEq for BinningMemoryResource<U, B> {
    /// Whether both are handles to the same bins.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<U: SyncResource, B> Eq for BinningMemoryResource<U, B> {}

// SAFETY: every call goes to the bin or the upstream that the layout alone selects, so a free
// reaches the resource of its allocation; each of them keeps the contract.
unsafe impl<U: SyncResource, B: SyncResource> SyncResource for BinningMemoryResource<U, B> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        match self.bin_for(layout) {
            Some(bin) => bin.do_allocate_sync(layout),
            None => self.inner.upstream.do_allocate_sync(layout),
        }
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        match self.bin_for(layout) {
            // SAFETY: the caller's contract; the layout selects the bin of the allocation.
            Some(bin) => unsafe { bin.do_deallocate_sync(pointer, layout) },
            // SAFETY: the caller's contract; the layout selects the upstream, as it did for the
            // allocation.
            None => unsafe { self.inner.upstream.do_deallocate_sync(pointer, layout) },
        }
    }

    fn name(&self) -> &'static str {
        "binning"
    }

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        request.handle(self).upstream(&self.inner.upstream).value(|| MayBeWaitedFor);
        let upstream: &dyn SyncResource = &self.inner.upstream;
        let bins = self.inner.bins.iter().map(|(_, bin)| bin as &dyn SyncResource);
        request.common_properties(std::iter::once(upstream).chain(bins));
        if let Some((_, bin)) = self.inner.bins.first() {
            request.values_from(bin);
        }
        for (bytes, bin) in self.bins() {
            let bytes = rmm_core::format_bytes(bytes);
            request.other_upstream(format_args!("up to {bytes}"), bin);
        }
    }
}

// SAFETY: the layout alone selects the bin or the upstream, as for `SyncResource`.
unsafe impl<U: Resource, B: Resource> Resource for BinningMemoryResource<U, B> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        match self.bin_for(layout) {
            Some(bin) => bin.do_allocate(stream, layout),
            None => self.inner.upstream.do_allocate(stream, layout),
        }
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        match self.bin_for(layout) {
            // SAFETY: the caller's contract; the layout selects the bin of the allocation.
            Some(bin) => unsafe { bin.do_deallocate(stream, pointer, layout) },
            // SAFETY: the caller's contract; the layout selects the upstream, as it did for the
            // allocation.
            None => unsafe { self.inner.upstream.do_deallocate(stream, pointer, layout) },
        }
    }

    fn do_try_allocate_now(&self, stream: StreamRef<'_>, layout: Layout) -> Option<DevicePtr> {
        match self.bin_for(layout) {
            Some(bin) => bin.do_try_allocate_now(stream, layout),
            None => self.inner.upstream.do_try_allocate_now(stream, layout),
        }
    }

    unsafe fn do_try_deallocate_now(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> bool {
        match self.bin_for(layout) {
            // SAFETY: the caller's contract; the layout selects the bin of the allocation.
            Some(bin) => unsafe { bin.do_try_deallocate_now(stream, pointer, layout) },
            // SAFETY: the caller's contract; the layout selects the upstream, as it did for the
            // allocation.
            None => unsafe { self.inner.upstream.do_try_deallocate_now(stream, pointer, layout) },
        }
    }

    fn to_any(&self) -> Option<AnyResource<()>>
    where
        Self: 'static,
    {
        Some(AnyResource::of(self))
    }
}

// SAFETY: the memory is the upstream's or a bin's, and both have the property.
unsafe impl<P, U, B> HasProperty<P> for BinningMemoryResource<U, B>
where
    P: Property,
    U: SyncResource + HasProperty<P>,
    B: SyncResource + HasProperty<P>,
{
}

// SAFETY: the blocks of all bins are the upstream's memory.
unsafe impl<U: SyncResource + HasMemoryKind> HasMemoryKind for BinningMemoryResource<U> {
    const KIND: MemoryKind = U::KIND;
    const CAPS: MemoryCaps = U::CAPS;
}
