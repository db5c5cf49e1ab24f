//! Over-aligned allocations: alignments above 256 bytes over any resource.

use std::alloc::Layout;
use std::fmt;

use rmm_core::adaptor_support::Calls;
use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Description, DevicePtr, Error, is_supported_alignment};

use super::layer::{Layer, handle, rounded_up};
use crate::sync::Counter;
use crate::sync::address_table::AddressTable;
use crate::sync::first_thread::FirstThreadCell;

const NAME: &str = "aligned";

handle! {
    /// Aligns blocks to more than 256 bytes, the alignment of every resource here. Blocks of at
    /// least a threshold get the alignment that is set; every block gets the alignment of its
    /// layout.
    ///
    /// An over-aligned block is suballocated from an upstream block that is `alignment - 256` bytes
    /// longer and allocated with an alignment of 256. All other requests go to upstream unchanged.
    ///
    /// It is a handle: clones share the table of blocks whose address differs from that of their
    /// upstream block. It is written without a lock, and a free looks only while there are such
    /// blocks.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::AlignedResourceAdaptor;
    /// use rmm_core::{SynchronousResource, is_pointer_aligned};
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
    /// Owned by the thread that may write to what follows exclusively.
    first: FirstThreadCell<()>,
    /// Blocks whose address differs from that of their upstream block, with the latter.
    moved: AddressTable,
    /// How many those are. A thread that frees one of them sees a count above zero: the block was
    /// counted before its address was returned.
    moved_count: Counter,
}

impl fmt::Debug for Align {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alignment, threshold, first: _, moved: _, moved_count } = self;
        let mut fields = f.debug_struct("Align");
        fields.field("alignment", alignment).field("threshold", threshold);
        fields.field("moved_blocks", &moved_count.get()).finish()
    }
}

impl<U> AlignedResourceAdaptor<U> {
    /// Aligns every block to `alignment` bytes, or to 256 bytes if `alignment` is smaller.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is not
    /// a power of two.
    pub fn new(upstream: U, alignment: usize) -> Result<Self, Error> {
        Self::with_threshold(upstream, alignment, 0)
    }

    /// Aligns blocks of at least `threshold` bytes to `alignment` bytes, or to 256 bytes if
    /// `alignment` is smaller.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is not
    /// a power of two.
    #[doc(alias = "alignment_threshold")]
    pub fn with_threshold(upstream: U, alignment: usize, threshold: usize) -> Result<Self, Error> {
        if !is_supported_alignment(alignment) {
            let message = format!("the alignment {alignment} is not a power of two");
            return Err(Error::invalid_argument(NAME, message));
        }
        let alignment = alignment.max(CUDA_ALLOCATION_ALIGNMENT);
        let (first, moved) = (FirstThreadCell::default(), AddressTable::default());
        let moved_count = Counter::default();
        Ok(Self::over(upstream, Align { alignment, threshold, first, moved, moved_count }))
    }
}

/// What to ask upstream for.
enum Plan {
    AsItIs,
    /// Allocate this layout, and round the address up to the alignment.
    Within(Layout, usize),
    TooLarge,
}

/// The first address in a block that is a multiple of `alignment`, which is a power of two. The
/// block has room for the rounding.
#[inline]
fn aligned_in(block: DevicePtr, alignment: usize) -> DevicePtr {
    let below_alignment = alignment as u64 - 1;
    DevicePtr((block.0 + below_alignment) & !below_alignment)
}

impl Align {
    #[inline]
    fn plan(&self, layout: Layout) -> Plan {
        let at_least = if layout.size() >= self.threshold { self.alignment } else { 0 };
        let alignment = at_least.max(layout.align());
        if alignment <= CUDA_ALLOCATION_ALIGNMENT {
            return Plan::AsItIs;
        }
        // Cannot overflow: both are at most `isize::MAX + 1`.
        let room = rounded_up(layout, alignment) + (alignment - CUDA_ALLOCATION_ALIGNMENT);
        let padded = Layout::from_size_align(room, CUDA_ALLOCATION_ALIGNMENT);
        padded.map_or(Plan::TooLarge, |padded| Plan::Within(padded, alignment))
    }

    // Not inlined, like `remove_moved`: calls for other blocks then save no registers for it.
    #[inline(never)]
    fn insert(&self, aligned: DevicePtr, upstream: DevicePtr) -> bool {
        let access = &self.first.access();
        let is_new = self.moved.insert(access, aligned, upstream.0);
        if is_new {
            self.moved_count.add(access, 1);
        }
        is_new
    }

    /// Removes a block from the table. Returns the address of its upstream block.
    #[inline]
    fn remove(&self, aligned: DevicePtr) -> DevicePtr {
        if self.moved_count.get() == 0 {
            return aligned;
        }
        self.remove_moved(aligned)
    }

    #[inline(never)]
    fn remove_moved(&self, aligned: DevicePtr) -> DevicePtr {
        let access = &self.first.access();
        let Some(upstream) = self.moved.remove(access, aligned) else { return aligned };
        self.moved_count.subtract(access, 1);
        DevicePtr(upstream)
    }
}

// SAFETY: an over-aligned block lies in an upstream block with room for it at any start, which has
// no other owner; the table maps the block's address back to it. Other blocks are upstream's,
// unchanged.
unsafe impl Layer for Align {
    const NAME: &'static str = NAME;

    #[inline]
    fn allocate(&self, upstream: &impl Calls, layout: Layout) -> Result<DevicePtr, Error> {
        let (padded, alignment) = match self.plan(layout) {
            Plan::AsItIs => return upstream.allocate(layout),
            Plan::TooLarge => return Err(Error::out_of_memory(NAME).with_layout(layout)),
            Plan::Within(padded, alignment) => (padded, alignment),
        };
        // Report the layout that was requested, not the padded one.
        let block = upstream.allocate(padded).map_err(|error| error.with_layout(layout))?;
        let aligned = aligned_in(block, alignment);
        if aligned == block || self.insert(aligned, block) {
            return Ok(aligned);
        }
        // SAFETY: allocated above with this layout, in the same order, and not returned to any
        // caller.
        unsafe { upstream.deallocate(block, padded) };
        let message = format!("upstream's block at {block:?} holds {aligned:?}, which is in use");
        Err(Error::invalid_argument(NAME, message).with_layout(layout))
    }

    #[inline]
    unsafe fn deallocate(&self, upstream: &impl Calls, pointer: DevicePtr, layout: Layout) {
        let (block, layout) = match self.plan(layout) {
            // Before upstream can return the address to another thread.
            Plan::Within(padded, _) => (self.remove(pointer), padded),
            Plan::AsItIs | Plan::TooLarge => (pointer, layout),
        };
        // SAFETY: the caller's contract is the same; `block` and `layout` are those of the upstream
        // allocation.
        unsafe { upstream.deallocate(block, layout) }
    }

    fn describe(&self, description: &mut Description) {
        description
            .bytes("alignment", self.alignment as u64)
            .bytes("threshold", self.threshold as u64)
            .count("moved blocks", self.moved_count.get());
    }
}
