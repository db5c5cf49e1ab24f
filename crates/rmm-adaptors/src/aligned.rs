//! Over-aligned allocations.

use std::alloc::Layout;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Description, DevicePtr, Error, is_supported_alignment};

use crate::blocks::Blocks;
use crate::layer::{Below, Layer, adaptor, rounded_up};
use crate::sync::biased_mutex::BiasedMutex;

const NAME: &str = "aligned";

adaptor! {
    /// Aligns blocks to more than the 256 bytes that every resource can: those of at least a
    /// threshold to an alignment that is set, and all to what is asked for.
    ///
    /// A block of more than 256 is taken with `alignment - 256` bytes more from upstream, which is
    /// asked for an alignment of 256. Others are upstream's, asked for with the request's own
    /// alignment.
    ///
    /// It is a handle: clones share the table of blocks whose address is not upstream's. The table's
    /// lock is taken only while there are such blocks, and is biased to the first thread: it costs
    /// next to nothing until a second one takes it.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::AlignedResourceAdaptor;
    /// use rmm_core::{SyncResource, is_pointer_aligned};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// // Pages of 4 KiB for what is at least 1 MiB, as direct storage wants it.
    /// let aligned = AlignedResourceAdaptor::with_threshold(CudaMemoryResource::new(), 4096, 1 << 20)?;
    /// let layout = Layout::from_size_align(1 << 20, 256)?;
    /// let block = aligned.allocate_sync(layout)?;
    /// assert!(is_pointer_aligned(block, 4096));
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { aligned.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::aligned_resource_adaptor")]
    AlignedResourceAdaptor(Align)
}

struct Align {
    /// A power of two, at least 256.
    alignment: usize,
    threshold: usize,
    /// Blocks whose address is not upstream's, with that of upstream.
    moved: BiasedMutex<Blocks<DevicePtr>>,
    /// The number of these, written under the lock. A thread that frees one of them sees that there
    /// are some: the block was counted before its address was returned.
    moved_count: AtomicUsize,
}

impl fmt::Debug for Align {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alignment, threshold, moved: _, moved_count } = self;
        let mut fields = f.debug_struct("Align");
        fields.field("alignment", alignment).field("threshold", threshold);
        fields.field("moved_blocks", &moved_count.load(Ordering::Relaxed)).finish()
    }
}

impl<U> AlignedResourceAdaptor<U> {
    /// Aligns every block to `alignment` bytes, or to 256 if that is more.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is no
    /// power of two.
    pub fn new(upstream: U, alignment: usize) -> Result<Self, Error> {
        Self::with_threshold(upstream, alignment, 0)
    }

    /// Aligns blocks of at least `threshold` bytes to `alignment` bytes, or to 256 if that is more.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is no
    /// power of two.
    #[doc(alias = "alignment_threshold")]
    pub fn with_threshold(upstream: U, alignment: usize, threshold: usize) -> Result<Self, Error> {
        if !is_supported_alignment(alignment) {
            let message = format!("the alignment, {alignment}, is no power of two");
            return Err(Error::invalid_argument(NAME, message));
        }
        let alignment = alignment.max(CUDA_ALLOCATION_ALIGNMENT);
        let (moved, moved_count) = (BiasedMutex::default(), AtomicUsize::new(0));
        Ok(Self::over(upstream, Align { alignment, threshold, moved, moved_count }))
    }
}

/// What a request is to upstream.
enum Plan {
    AsItIs,
    /// Ask for this, and round the address up to the alignment.
    Within(Layout, usize),
    TooLarge,
}

impl Align {
    #[inline]
    fn plan(&self, layout: Layout) -> Plan {
        let size = layout.size();
        let at_least = if size >= self.threshold { self.alignment } else { 0 };
        let alignment = at_least.max(layout.align());
        if size == 0 || alignment <= CUDA_ALLOCATION_ALIGNMENT {
            return Plan::AsItIs;
        }
        // It fits: both are at most `isize::MAX + 1`.
        let room = rounded_up(layout, alignment) + (alignment - CUDA_ALLOCATION_ALIGNMENT);
        let padded = Layout::from_size_align(room, CUDA_ALLOCATION_ALIGNMENT);
        padded.map_or(Plan::TooLarge, |padded| Plan::Within(padded, alignment))
    }

    /// Acts on the table, and counts.
    fn with_moved<R>(&self, act: impl FnOnce(&mut Blocks<DevicePtr>) -> R) -> R {
        self.moved.with(|moved| {
            let result = act(moved);
            self.moved_count.store(moved.len(), Ordering::Relaxed);
            result
        })
    }

    // Not inlined, as `remove_moved`: calls for other blocks save no registers for it.
    #[inline(never)]
    fn insert(&self, aligned: DevicePtr, upstream: DevicePtr) -> bool {
        self.with_moved(|moved| moved.insert(aligned, || upstream))
    }

    /// Upstream's address of a block, which is given up.
    #[inline]
    fn remove(&self, aligned: DevicePtr) -> DevicePtr {
        if self.moved_count.load(Ordering::Relaxed) == 0 {
            return aligned;
        }
        self.remove_moved(aligned)
    }

    #[inline(never)]
    fn remove_moved(&self, aligned: DevicePtr) -> DevicePtr {
        self.with_moved(|moved| moved.remove(aligned)).unwrap_or(aligned)
    }
}

// SAFETY: an aligned block lies in one of upstream's that has room for it wherever that starts, and
// which no other block overlaps; it is found again by the block's address. Others are upstream's as they
// are.
unsafe impl Layer for Align {
    const NAME: &'static str = NAME;

    #[inline]
    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        let (padded, alignment) = match self.plan(layout) {
            Plan::AsItIs => return below.allocate(layout),
            Plan::TooLarge => return Err(Error::out_of_memory(NAME).with_layout(layout)),
            Plan::Within(padded, alignment) => (padded, alignment),
        };
        // The error is about what was asked for here.
        let block = below.allocate(padded).map_err(|error| error.with_layout(layout))?;
        // A power of two; the block has room for it.
        let below_alignment = alignment as u64 - 1;
        let aligned = DevicePtr((block.0 + below_alignment) & !below_alignment);
        if aligned == block || self.insert(aligned, block) {
            return Ok(aligned);
        }
        // SAFETY: allocated above with this layout, in the same order, and not handed out.
        unsafe { below.deallocate(block, padded) };
        let message = format!("upstream's block at {block:?} holds {aligned:?}, which is in use");
        Err(Error::invalid_argument(NAME, message).with_layout(layout))
    }

    #[inline]
    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        let (block, layout) = match self.plan(layout) {
            // Before upstream can hand the memory out again.
            Plan::Within(padded, _) => (self.remove(pointer), padded),
            Plan::AsItIs | Plan::TooLarge => (pointer, layout),
        };
        // SAFETY: the caller's contract is the same; this is the block, and the layout, that the
        // memory was taken from upstream as.
        unsafe { below.deallocate(block, layout) }
    }

    fn tell(&self, description: &mut Description) {
        let moved = self.moved_count.load(Ordering::Relaxed);
        description
            .bytes("alignment", self.alignment as u64)
            .bytes("threshold", self.threshold as u64)
            .count("moved blocks", moved as u64);
    }
}
