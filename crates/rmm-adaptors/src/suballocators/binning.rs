//! Size bins: each request goes to the resource for its size.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    AnyResource, Contains, Context, DeviceAccessible, DevicePtr, Error, HasProperty, Introspect,
    Property, PropertySet, Query, Resource, SatisfiedBy, StreamRef, Structure, SynchronousResource,
};

use super::pool::padded_size;
use crate::FixedSizeMemoryResource;
use crate::shared::with_properties::{Exactly, WithProperties, provide_views};

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
/// use rmm_adaptors::{BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource};
/// use rmm_core::{CudaStream, Introspect, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
/// let binning = BinningMemoryResource::builder(pool).bins_of_powers(18..=22)?.build();
/// assert!(binning.bins().map(|(bytes, _)| bytes).eq((18..=22).map(|power| 1 << power)));
///
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(300_000, 256)?;
/// let pointer = binning.allocate(&stream, layout)?; // a block of 512 KiB
/// # // SAFETY: allocated above with this layout on this stream.
/// # unsafe { binning.deallocate(&stream, pointer, layout) };
/// let bin = binning.bin_for(layout).and_then(|bin| bin.find::<FixedSizeMemoryResource>());
/// assert_eq!(bin.map(|bin| bin.statistics().frees), Some(1));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::binning_memory_resource")]
#[derive(Clone)]
#[repr(transparent)]
pub struct BinningMemoryResource<S: PropertySet = DeviceAccessible> {
    /// # Invariant
    /// The memory of the upstream and of all bins has every property in `S`.
    inner: Arc<Inner>,
    set: Exactly<S>,
}

struct Inner {
    /// # Invariant
    /// Sorted by the largest request of each bin, strictly ascending; all multiples of 256.
    bins: Box<[(u64, AnyResource<()>)]>,
    upstream: AnyResource<()>,
}

/// Options for a [`BinningMemoryResource`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct BinningMemoryResourceBuilder<S: PropertySet = DeviceAccessible> {
    upstream: AnyResource<S>,
    /// # Invariant
    /// The memory of each bin has every property in `S`.
    bins: Vec<(u64, AnyResource<()>)>,
}

impl<S: PropertySet> BinningMemoryResourceBuilder<S> {
    /// Adds a bin for requests of up to `bytes` bytes, rounded up to a multiple of 256, that no
    /// smaller bin fits; `bin` serves them.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if there already is a
    /// bin of that size, or the size is 0 or too large.
    #[doc(alias = "add_bin")]
    pub fn bin_of<B>(self, bytes: u64, bin: B) -> Result<Self, Error>
    where
        B: Resource + PartialEq + 'static,
        S: SatisfiedBy<B>,
    {
        self.insert(bytes, AnyResource::new(bin))
    }

    /// The bin's memory has every property in `S`.
    fn insert(mut self, bytes: u64, bin: AnyResource<()>) -> Result<Self, Error> {
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
    pub fn build(self) -> BinningMemoryResource<S> {
        let Self { upstream, bins } = self;
        let inner = Arc::new(Inner { bins: bins.into(), upstream: upstream.narrow() });
        BinningMemoryResource { inner, set: PhantomData }
    }

    /// Adds a bin of fixed-size blocks of `bytes` bytes, allocated from the upstream 128 at a time.
    ///
    /// # Errors
    /// The errors of [`bin_of`](Self::bin_of), and the upstream's error if it cannot allocate the
    /// blocks.
    pub fn bin(self, bytes: u64) -> Result<Self, Error> {
        let size = bin_size(bytes)?;
        let blocks = FixedSizeMemoryResource::builder_from(self.upstream.clone());
        let blocks = blocks.block_size(size).build()?;
        self.insert(size, AnyResource::new(blocks))
    }

    /// Adds a [`bin`](Self::bin) of 2^n bytes for each n.
    ///
    /// # Errors
    /// The errors of [`bin`](Self::bin).
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

impl BinningMemoryResource {
    /// A builder without bins over `upstream`. The device may use the memory of the upstream and of
    /// all bins.
    pub fn builder<U>(upstream: U) -> BinningMemoryResourceBuilder
    where
        U: Resource + HasProperty<DeviceAccessible> + PartialEq + 'static,
    {
        Self::builder_with_properties(upstream)
    }
}

impl<S: PropertySet> BinningMemoryResource<S> {
    /// A builder without bins, for memory that has every property in `S`.
    pub fn builder_with_properties<U>(upstream: U) -> BinningMemoryResourceBuilder<S>
    where
        U: Resource + PartialEq + 'static,
        S: SatisfiedBy<U>,
    {
        BinningMemoryResourceBuilder { upstream: AnyResource::new(upstream), bins: Vec::new() }
    }

    /// The resource that serves requests that fit no bin.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(&self) -> &AnyResource<S> {
        // SAFETY: the invariant of `inner`.
        unsafe { self.inner.upstream.assume() }
    }

    /// The bins with the largest size that each serves, in ascending order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, &AnyResource<S>)> {
        // SAFETY: the invariant of `inner`.
        self.inner.bins.iter().map(|(size, bin)| (*size, unsafe { bin.assume() }))
    }

    /// The bin that serves a layout; `None` if the upstream does.
    pub fn bin_for(&self, layout: Layout) -> Option<&AnyResource<S>> {
        let bin = self.inner.bin_for(layout)?;
        // SAFETY: the invariant of `inner`.
        Some(unsafe { bin.assume() })
    }

    /// Returns free memory of the bins and then of the upstream, if those are suballocators, until
    /// each has no more than `keep` bytes reserved or no more can be returned. Returns the bytes
    /// that left the stack, as [`Introspect::trim_stack`].
    ///
    /// ```
    /// use rmm_adaptors::{BinningMemoryResource, PoolMemoryResource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let _machine = rmm_sim::enter();
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

    /// Returns idle memory, as [`trim`](Self::trim) does, after a wait for pending frees: see
    /// [`Introspect::trim_stack_blocking`].
    pub fn trim_blocking(&self, keep: u64) -> u64 {
        self.trim_stack_blocking(keep)
    }
}

impl Inner {
    fn bin_for(&self, layout: Layout) -> Option<&AnyResource<()>> {
        let size = padded_size(layout)?;
        let place = self.bins.partition_point(|&(bytes, _)| bytes < size);
        self.bins.get(place).map(|(_, bin)| bin)
    }

    /// The bin that serves a layout, or the upstream.
    fn resource_for(&self, layout: Layout) -> &AnyResource<()> {
        self.bin_for(layout).unwrap_or(&self.upstream)
    }
}

impl<S: PropertySet> fmt::Debug for BinningMemoryResource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { bins, upstream } = &*self.inner;
        let mut fields = f.debug_struct("BinningMemoryResource");
        fields.field("bins", bins).field("upstream", upstream).finish_non_exhaustive()
    }
}

impl<S: PropertySet> PartialEq for BinningMemoryResource<S> {
    /// Whether both are handles to the same bins.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<S: PropertySet> Eq for BinningMemoryResource<S> {}

// SAFETY: every call goes to the bin or the upstream that the layout alone selects, so a free
// reaches the resource of its allocation; each of them keeps the contract.
unsafe impl<S: PropertySet> SynchronousResource for BinningMemoryResource<S> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.inner.resource_for(layout).do_allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the layout selects the resource of the allocation.
        unsafe { self.inner.resource_for(layout).do_deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "binning"
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        let Inner { bins, upstream } = &*self.inner;
        let up_to = |bytes: u64| format!("up to {}", rmm_core::format_bytes(bytes));
        let over = Structure::over(upstream);
        bins.iter().fold(over, |structure, (bytes, bin)| structure.and(up_to(*bytes), bin))
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        provide_views(self, query).value(|| MayBeWaitedFor);
        let all = std::iter::once(self.upstream()).chain(self.bins().map(|(_, bin)| bin));
        query.common_properties(all.map(|resource| resource as &dyn SynchronousResource));
        // Whose default streams they serve: counters and limits of a bin are not those of all.
        if let Some(context) =
            self.inner.bins.first().and_then(|(_, bin)| bin.try_value::<Context>())
        {
            query.value(|| context);
        }
    }
}

// SAFETY: the layout alone selects the bin or the upstream, as for `SynchronousResource`.
unsafe impl<S: PropertySet> Resource for BinningMemoryResource<S> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.inner.resource_for(layout).do_allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract; the layout selects the resource of the allocation.
        unsafe { self.inner.resource_for(layout).do_deallocate(stream, pointer, layout) }
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the invariant of `inner`.
unsafe impl<S: Contains<P>, P: Property> HasProperty<P> for BinningMemoryResource<S> {}

// SAFETY: the type is transparent over `inner`, whose type does not depend on the set; the marker
// of the set is of size zero. Only the invariant of `inner` depends on the set.
unsafe impl<S: PropertySet> WithProperties for BinningMemoryResource<S> {
    type With<T: PropertySet> = BinningMemoryResource<T>;
}
