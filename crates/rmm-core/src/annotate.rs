//! Telling a checker which ranges an allocator hands out.

use std::alloc::Layout;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_sys::{AllocationEvent, Annotations, Driver};

use crate::{DevicePtr, StreamRef};

static LAST_OWNER: AtomicU64 = AtomicU64::new(0);

/// What an allocator tells a checker of the ranges that it hands out, so that each is judged like
/// an allocation of its own: whether its new owner is ordered behind its former one, and whether
/// every use lies within it and before its end.
///
/// The device that is a checker is the software device; a real driver has no listener, and each
/// call costs a look at a field.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{Annotator, CudaStream, DevicePtr};
/// # use rmm_core::Resource;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let machine = rmm_sim::Machine::new();
/// let _entered = machine.enter();
/// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
/// # let cuda = rmm_resources::CudaMemoryResource::new();
/// # let whole = Layout::from_size_align(1 << 20, 256)?;
/// # let chunk = cuda.allocate(&stream, whole)?;
///
/// // An allocator that hands `chunk` to one stream and then to another, although the first may be at work on it:
/// let annotator = Annotator::new("careless");
/// let layout = Layout::from_size_align(4096, 256)?;
/// annotator.allocated(chunk, layout, Some(stream.as_stream_ref()));
/// // SAFETY: within the memory allocated above.
/// unsafe { rmm_core::copy::fill(chunk, 1, 4096, &stream)? };
/// annotator.freed(chunk, layout, Some(stream.as_stream_ref()));
/// annotator.allocated(chunk, layout, Some(other.as_stream_ref()));
///
/// assert_eq!(machine.violations()[0].kind, rmm_sim::ViolationKind::AllocatedInUse);
/// # annotator.freed(chunk, layout, Some(other.as_stream_ref()));
/// # // SAFETY: allocated above; freeing it waits for the device.
/// # unsafe { cuda.deallocate(&stream, chunk, whole) };
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Annotator {
    owner: u64,
    name: &'static str,
    listener: Option<&'static Annotations>,
}

impl Annotator {
    /// For an allocator of this name: one annotator for each set of ranges that it keeps apart.
    pub fn new(name: &'static str) -> Self {
        let owner = LAST_OWNER.fetch_add(1, Ordering::Relaxed) + 1;
        let listener = Driver::get().ok().and_then(|driver| driver.annotations);
        Self { owner, name, listener }
    }

    /// Tells that a range is about to be returned: to the order of a stream, or, without one, to be
    /// used by all streams.
    ///
    /// To be called after whatever makes the stream wait for the range's former users, and without
    /// the allocator's lock.
    #[inline]
    pub fn allocated(&self, pointer: DevicePtr, layout: Layout, stream: Option<StreamRef<'_>>) {
        if let Some(listener) = self.listener {
            (listener.allocated)(self.event(pointer, layout, stream));
        }
    }

    /// Tells that a range came back: in the order of a stream, or, without one, with all use of it
    /// completed.
    ///
    /// To be called before the range can be allocated again, and without the allocator's lock.
    #[inline]
    pub fn freed(&self, pointer: DevicePtr, layout: Layout, stream: Option<StreamRef<'_>>) {
        if let Some(listener) = self.listener {
            (listener.freed)(self.event(pointer, layout, stream));
        }
    }

    #[cold]
    fn event(
        &self,
        pointer: DevicePtr,
        layout: Layout,
        stream: Option<StreamRef<'_>>,
    ) -> AllocationEvent {
        AllocationEvent {
            owner: self.owner,
            name: self.name,
            pointer,
            bytes: layout.size(),
            stream: stream.map(StreamRef::as_raw),
        }
    }
}
