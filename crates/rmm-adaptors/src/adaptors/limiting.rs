//! A limit on the bytes that are allocated at the same time.

use std::alloc::Layout;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_core::adaptor_support::Calls;
use rmm_core::siblings::{LimitId, Others, allocate_with};
use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, Description, DevicePtr, Error, OomReason, PoolUsage, Remedy,
    StreamRef, format_bytes, is_supported_alignment,
};

use super::layer::{Layer, handle, rounded_up};
use crate::sync::Counter;
use crate::sync::first_thread::FirstThreadCell;

const NAME: &str = "limiting";

handle! {
    /// Fails allocations that would bring the bytes allocated from upstream above a limit.
    ///
    /// Each block counts with its size rounded up to an alignment, 256 bytes unless
    /// [chosen](Self::with_alignment) otherwise, from before upstream allocates it until after
    /// upstream has freed it, so no request brings upstream above the limit. A request that
    /// exceeds the limit does not reach upstream and never counts. One that fits counts while
    /// upstream allocates it, even if upstream then fails.
    ///
    /// What suballocators over the adaptor have reserved counts, whether they use it or not. Before
    /// the adaptor refuses a request, they return what they do not use. A pool *below* the adaptor
    /// is not asked: what it holds beyond the program's blocks does not count here.
    ///
    /// It is a handle: clones share the count. A call costs one atomic addition, and a plain one
    /// while only one thread uses the adaptor.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::LimitingResourceAdaptor;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let limited = LimitingResourceAdaptor::new(CudaMemoryResource::new(), 4096);
    /// let layout = Layout::from_size_align(3000, 256)?;
    /// let block = limited.allocate_sync(layout)?;
    /// assert_eq!(limited.allocated_bytes(), 3072);
    /// let error = limited.allocate_sync(layout).unwrap_err();
    /// assert!(error.is_out_of_memory());
    /// let why = "3.0 KiB of the limit of 4.0 KiB are in use, and this counts as 3.0 KiB";
    /// assert!(error.to_string().contains(why), "{error}");
    /// // SAFETY: allocated above with this layout, and not used.
    /// unsafe { limited.deallocate_sync(block, layout) };
    /// assert_eq!(limited.allocated_bytes(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::limiting_resource_adaptor")]
    LimitingResourceAdaptor(Limit)
}

/// # Invariant
/// `used` is the sum of the padded sizes of live blocks and of requests in flight, and no request
/// brings it above the limit.
struct Limit {
    /// Owned by the thread that may update `used` exclusively.
    first: FirstThreadCell<()>,
    used: Counter,
    most: AtomicU64,
    /// A power of two.
    alignment: usize,
    id: LimitId,
}

impl<U> LimitingResourceAdaptor<U> {
    /// Limits upstream to `limit` bytes, in blocks rounded up to 256 bytes.
    pub fn new(upstream: U, limit: u64) -> Self {
        Self::over(upstream, Limit::new(limit, CUDA_ALLOCATION_ALIGNMENT))
    }

    /// Limits upstream to `limit` bytes, in blocks rounded up to `alignment` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is not
    /// a power of two.
    pub fn with_alignment(upstream: U, limit: u64, alignment: usize) -> Result<Self, Error> {
        if !is_supported_alignment(alignment) {
            let message = format!("the alignment {alignment} is not a power of two");
            return Err(Error::invalid_argument(NAME, message));
        }
        Ok(Self::over(upstream, Limit::new(limit, alignment)))
    }

    /// The bytes that count as allocated now.
    #[doc(alias = "get_allocated_bytes")]
    pub fn allocated_bytes(&self) -> u64 {
        self.inner.layer.used.get()
    }

    /// The limit in bytes.
    #[doc(alias = "get_allocation_limit")]
    pub fn allocation_limit(&self) -> u64 {
        self.inner.layer.most()
    }

    /// Changes the limit. If more is in use than the new one allows, requests fail until enough is
    /// freed.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::LimitingResourceAdaptor;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let limited = LimitingResourceAdaptor::new(CudaMemoryResource::new(), 4096);
    /// let layout = Layout::from_size_align(8192, 256)?;
    /// let error = limited.allocate_sync(layout).unwrap_err();
    /// assert_eq!(error.limit_id(), Some(limited.limit_id()));
    /// limited.set_allocation_limit(8192);
    /// let block = limited.allocate_sync(layout)?;
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { limited.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_allocation_limit(&self, bytes: u64) {
        self.inner.layer.most.store(bytes, Ordering::Relaxed);
    }

    /// The identity of the limit in errors and remedies: [`Error::limit_id`].
    pub fn limit_id(&self) -> LimitId {
        self.inner.layer.id
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first: _, used, most, alignment, id: _ } = self;
        let mut fields = f.debug_struct("Limit");
        fields.field("allocated", &used.get()).field("limit", &most.load(Ordering::Relaxed));
        fields.field("alignment", alignment).finish()
    }
}

impl Limit {
    fn new(most: u64, alignment: usize) -> Self {
        let (first, used) = (FirstThreadCell::default(), Counter::default());
        Self { first, used, most: AtomicU64::new(most), alignment, id: LimitId::new() }
    }

    #[inline]
    fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// The bytes that a block counts as.
    #[inline]
    fn padded(&self, layout: Layout) -> u64 {
        rounded_up(layout, self.alignment) as u64
    }

    /// The count with a block, if that fits.
    #[inline]
    fn with(&self, used: u64, padded: u64) -> Option<u64> {
        used.checked_add(padded).filter(|&sum| sum <= self.most())
    }

    /// Adds a block to the count if it fits; otherwise returns the current count.
    #[inline]
    fn reserve(&self, padded: u64) -> Result<(), u64> {
        self.used.update(&self.first.access(), |used| self.with(used, padded))
    }

    /// Removes a block from the count.
    #[inline]
    fn release(&self, padded: u64) {
        self.used.subtract(&self.first.access(), padded);
    }

    /// Adds a block to the count if it fits after suballocators over this adaptor have returned
    /// memory that they do not use.
    #[cold]
    fn reserve_with_help(
        &self,
        padded: u64,
        layout: Layout,
        stream: Option<StreamRef<'_>>,
    ) -> Result<(), Error> {
        let reserve = || self.reserve(padded).map_err(|used| self.refusal(used, layout, stream));
        allocate_with(stream, padded, reserve, || Some(Others::of_limit(self.id)))
    }

    #[cold]
    fn refusal(&self, used: u64, layout: Layout, stream: Option<StreamRef<'_>>) -> Error {
        let most = self.most();
        let left = most.saturating_sub(used);
        let usage = PoolUsage::new(used, used)
            .with_largest_free(left)
            .with_limit(most)
            .with_reason(OomReason::Exhausted);
        let [in_use, limit, counts] = [used, most, self.padded(layout)].map(format_bytes);
        let message =
            format!("{in_use} of the limit of {limit} are in use, and this counts as {counts}");
        let error = Error::out_of_memory(NAME).with_layout(layout);
        let error = error.with_usage(usage).with_message(message).with_limit_id(self.id);
        let lacking = self.padded(layout).saturating_add(used).saturating_sub(most);
        let error = error.with_remedies(vec![Remedy::raise_limit(NAME, self.id, lacking)]);
        match stream {
            Some(stream) => error.with_stream(stream.id()),
            None => error,
        }
    }
}

// Not an observer: a request counts before upstream is asked, and a block until upstream has freed
// it. The events of an observer lie between the two.
//
// SAFETY: blocks are allocated by upstream and freed to it unchanged.
unsafe impl Layer for Limit {
    const NAME: &'static str = NAME;

    #[inline]
    fn allocate(&self, upstream: &impl Calls, layout: Layout) -> Result<DevicePtr, Error> {
        let padded = self.padded(layout);
        if self.reserve(padded).is_err() {
            self.reserve_with_help(padded, layout, upstream.stream())?;
        }
        upstream.allocate(layout).inspect_err(|_| self.release(padded))
    }

    #[inline]
    unsafe fn deallocate(&self, upstream: &impl Calls, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { upstream.deallocate(pointer, layout) };
        // The count is by size alone, so a block that upstream reuses before this subtraction is
        // counted twice for a moment, and upstream still stays within the limit.
        self.release(self.padded(layout));
    }

    fn limit_id(&self) -> Option<LimitId> {
        Some(self.id)
    }

    fn describe(&self, description: &mut Description) {
        description.bytes("allocated", self.used.get()).bytes("limit", self.most());
    }
}
