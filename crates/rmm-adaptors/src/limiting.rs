//! A limit on what is allocated at once.

use std::alloc::Layout;
use std::fmt;

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, Description, DevicePtr, Error, OomReason, PoolUsage, StreamRef,
    format_bytes, is_supported_alignment,
};

use crate::layer::{Below, Layer, adaptor, rounded_up};
use crate::sync::Counter;
use crate::sync::first_thread::FirstThreadCell;

const NAME: &str = "limiting";

adaptor! {
    /// Refuses what would make more than a number of bytes allocated at once from another resource.
    ///
    /// Each block counts as rounded up to an alignment, 256 bytes unless another is
    /// [chosen](Self::with_alignment), and from before it is asked of upstream until after upstream
    /// has it back, so that upstream never has more than the limit out. A request that does not fit
    /// reaches no upstream and never counts. While one that fits is on its way, it counts, even if
    /// upstream then refuses it.
    ///
    /// It is a handle: clones share the count. A call costs one atomic addition, and not even that
    /// as long as one thread alone calls.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::LimitingResourceAdaptor;
    /// use rmm_core::SyncResource;
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
    /// assert!(error.to_string().contains("3.0 KiB of the limit of 4.0 KiB are in use, and this counts as 3.0 KiB"), "{error}");
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
/// `used` is the sum of the padded sizes of what is allocated, or on its way, and at most `most`.
struct Limit {
    /// Owned by the thread that may update `used` exclusively.
    first: FirstThreadCell<()>,
    used: Counter,
    most: u64,
    /// A power of two.
    alignment: usize,
}

impl<U> LimitingResourceAdaptor<U> {
    /// Allows `limit` bytes at once, of blocks rounded up to 256.
    pub fn new(upstream: U, limit: u64) -> Self {
        Self::over(upstream, Limit::new(limit, CUDA_ALLOCATION_ALIGNMENT))
    }

    /// Allows `limit` bytes at once, of blocks rounded up to `alignment`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is no
    /// power of two.
    pub fn with_alignment(upstream: U, limit: u64, alignment: usize) -> Result<Self, Error> {
        if !is_supported_alignment(alignment) {
            let message = format!("the alignment, {alignment}, is no power of two");
            return Err(Error::invalid_argument(NAME, message));
        }
        Ok(Self::over(upstream, Limit::new(limit, alignment)))
    }

    /// Bytes that count as allocated now.
    #[doc(alias = "get_allocated_bytes")]
    pub fn allocated_bytes(&self) -> u64 {
        self.inner.layer.used.get()
    }

    /// The most bytes that may be allocated at once.
    #[doc(alias = "get_allocation_limit")]
    pub fn allocation_limit(&self) -> u64 {
        self.inner.layer.most
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first: _, used, most, alignment } = self;
        let mut fields = f.debug_struct("Limit");
        fields.field("allocated", &used.get()).field("limit", most);
        fields.field("alignment", alignment).finish()
    }
}

impl Limit {
    fn new(most: u64, alignment: usize) -> Self {
        Self { first: FirstThreadCell::default(), used: Counter::default(), most, alignment }
    }

    /// What a block counts as.
    #[inline]
    fn padded(&self, layout: Layout) -> u64 {
        rounded_up(layout, self.alignment) as u64
    }

    /// Counts a block, if it fits; else the bytes that count already.
    #[inline]
    fn reserve(&self, padded: u64) -> Result<(), u64> {
        let with_it = |used: u64| used.checked_add(padded).filter(|&sum| sum <= self.most);
        let exclusive = self.first.enter(|()| self.used.update_exclusive(with_it), |()| ());
        exclusive.unwrap_or_else(|_| self.used.update(with_it))
    }

    /// A block counts no more.
    #[inline]
    fn release(&self, padded: u64) {
        if self.first.enter(|()| self.used.subtract_exclusive(padded), |()| ()).is_err() {
            self.used.subtract(padded);
        }
    }

    #[cold]
    fn refusal(&self, used: u64, layout: Layout, stream: Option<StreamRef<'_>>) -> Error {
        let left = self.most - used;
        let usage = PoolUsage::new(used, used)
            .with_largest_free(left)
            .with_limit(self.most)
            .with_reason(OomReason::Exhausted);
        let [in_use, limit, counts] = [used, self.most, self.padded(layout)].map(format_bytes);
        let message =
            format!("{in_use} of the limit of {limit} are in use, and this counts as {counts}");
        let error = Error::out_of_memory(NAME).with_layout(layout);
        let error = error.with_usage(usage).with_message(message);
        match stream {
            Some(stream) => error.with_stream(stream.id()),
            None => error,
        }
    }
}

// SAFETY: the memory that is handed out is upstream's, block by block, and goes back as it came.
unsafe impl Layer for Limit {
    const NAME: &'static str = NAME;

    #[inline]
    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        let padded = self.padded(layout);
        match self.reserve(padded) {
            Ok(()) => below.allocate(layout).inspect_err(|_| self.release(padded)),
            Err(used) => Err(self.refusal(used, layout, below.stream())),
        }
    }

    #[inline]
    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { below.deallocate(pointer, layout) };
        // No address is kept here, so a block that is handed out again in between confuses nothing,
        // and upstream keeps to the limit.
        self.release(self.padded(layout));
    }

    fn tell(&self, description: &mut Description) {
        description.bytes("allocated", self.used.get()).bytes("limit", self.most);
    }
}
