//! Addresses that are multiples of more than 256.

use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Description, DevicePtr, Error, is_supported_alignment};

use crate::layer::{Below, Layer, adaptor};

const NAME: &str = "aligned";

adaptor! {
    /// Aligns blocks to more than the 256 bytes that every resource can: those of at least a threshold to an alignment that is set, and all
    /// to what is asked for.
    ///
    /// A block of more than 256 is taken with `alignment - 256` bytes more from upstream, which is asked for an alignment of 256. Others
    /// are upstream's, asked for with the request's own alignment.
    ///
    /// It is a handle: clones share the table of blocks whose address is not upstream's.
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

#[derive(Debug)]
struct Align {
    /// A power of two, at least 256.
    alignment: usize,
    threshold: usize,
    moved: Mutex<HashMap<DevicePtr, DevicePtr>>,
}

impl<U> AlignedResourceAdaptor<U> {
    /// Aligns every block to `alignment` bytes, or to 256 if that is more.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is no power of two.
    pub fn new(upstream: U, alignment: usize) -> Result<Self, Error> {
        Self::with_threshold(upstream, alignment, 0)
    }

    /// Aligns blocks of at least `threshold` bytes to `alignment` bytes, or to 256 if that is more.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is no power of two.
    #[doc(alias = "alignment_threshold")]
    pub fn with_threshold(upstream: U, alignment: usize, threshold: usize) -> Result<Self, Error> {
        if !is_supported_alignment(alignment) {
            let message = format!("the alignment, {alignment}, is no power of two");
            return Err(Error::invalid_argument(NAME, message));
        }
        let alignment = alignment.max(CUDA_ALLOCATION_ALIGNMENT);
        Ok(Self::over(upstream, Align { alignment, threshold, moved: Mutex::default() }))
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
    fn plan(&self, layout: Layout) -> Plan {
        let size = layout.size();
        let alignment = match size {
            0 => return Plan::AsItIs,
            _ if size >= self.threshold => self.alignment.max(layout.align()),
            _ => layout.align(),
        };
        if alignment <= CUDA_ALLOCATION_ALIGNMENT {
            return Plan::AsItIs;
        }
        let padded = size.checked_next_multiple_of(alignment);
        let padded =
            padded.and_then(|size| size.checked_add(alignment - CUDA_ALLOCATION_ALIGNMENT));
        let padded =
            padded.and_then(|size| Layout::from_size_align(size, CUDA_ALLOCATION_ALIGNMENT).ok());
        padded.map_or(Plan::TooLarge, |padded| Plan::Within(padded, alignment))
    }

    fn insert(&self, aligned: DevicePtr, upstream: DevicePtr) -> bool {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        match moved.entry(aligned) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(upstream);
                true
            }
        }
    }
}

// SAFETY: an aligned block lies in one of upstream's that has room for it wherever that starts, and which nobody else has; it is found
// again by the block's address. Others are upstream's as they are.
unsafe impl Layer for Align {
    const NAME: &'static str = NAME;

    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        let (padded, alignment) = match self.plan(layout) {
            Plan::AsItIs => return below.allocate(layout),
            Plan::TooLarge => return Err(Error::out_of_memory(NAME).with_layout(layout)),
            Plan::Within(padded, alignment) => (padded, alignment),
        };
        // The error is about what was asked for here.
        let block = below.allocate(padded).map_err(|error| error.with_layout(layout))?;
        let aligned = DevicePtr(block.0.next_multiple_of(alignment as u64));
        if aligned == block || self.insert(aligned, block) {
            return Ok(aligned);
        }
        // SAFETY: allocated above with this layout, in the same order, and nobody has it.
        unsafe { below.deallocate(block, padded) };
        let message = format!("upstream's block at {block:?} holds {aligned:?}, which is in use");
        Err(Error::invalid_argument(NAME, message).with_layout(layout))
    }

    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        let (block, layout) = match self.plan(layout) {
            Plan::Within(padded, _) => {
                let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
                // Before upstream can hand the memory out again.
                (moved.remove(&pointer).unwrap_or(pointer), padded)
            }
            Plan::AsItIs | Plan::TooLarge => (pointer, layout),
        };
        // SAFETY: the caller's contract is the same; this is the block, and the layout, that the memory was taken from upstream as.
        unsafe { below.deallocate(block, layout) }
    }

    fn tell(&self, description: &mut Description) {
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner).len();
        description
            .bytes("alignment", self.alignment as u64)
            .bytes("threshold", self.threshold as u64)
            .count("moved blocks", moved as u64);
    }
}
