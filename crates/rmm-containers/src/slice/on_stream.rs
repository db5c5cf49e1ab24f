//! The address of a view, for work on one stream.

use std::fmt;

use rmm_core::{DevicePtr, StreamRef};

use crate::range_view::RangeView;

/// The address of elements, for work that the program enqueues on one stream: what to pass to a
/// kernel.
///
/// Work enqueued on [`stream`](Self::stream) with [`as_ptr`](Self::as_ptr) while this value lives
/// is ordered after earlier conflicting work on the elements, and later calls that use, move or
/// free them wait for it. The container has recorded the use already, so it does not matter when
/// this value is dropped, or whether it is. It is not `Send`: on another thread, a per-thread
/// default stream is another stream.
///
/// One that is made while the stream is being captured is ordered within the graph only. Work that
/// is enqueued with it after the capture is still waited for, but is ordered after nothing outside
/// the graph: call `use_on` again after the capture.
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
/// use rmm_sim::Kernel;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::enter();
/// let (own, other) = (CudaStream::new()?, CudaStream::new()?);
/// let mut vector = DeviceUVector::from_slice(&[1u8; 100], &own)?;
/// let used = vector.use_on_mut(&other)?; // `other` waits for `own`
/// let kernel = Kernel::new("compute", |_| ()).writes(used.as_ptr(), used.bytes());
/// machine.launch(used.stream().as_raw(), kernel).expect("the memory and the stream are the machine's");
/// drop(vector); // freed on `own`, which waits for `other`
/// # Ok(())
/// # }
/// ```
#[must_use = "the container has recorded a use on the stream; pass the address to work there"]
pub struct OnStream<'s, V> {
    view: V,
    pointer: DevicePtr,
    bytes: usize,
    stream: StreamRef<'s>,
}

impl<'s, V> OnStream<'s, V> {
    pub(crate) fn new(view: V, range: RangeView<'_>, stream: StreamRef<'s>) -> Self {
        Self { view, pointer: range.pointer(), bytes: range.bytes(), stream }
    }

    /// The address of the first element; null if there is no memory.
    pub fn as_ptr(&self) -> DevicePtr {
        self.pointer
    }

    /// The size of the elements, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The stream. A default stream denotes that of the container's device.
    pub fn stream(&self) -> StreamRef<'s> {
        self.stream
    }
}

impl<V: fmt::Debug> fmt::Debug for OnStream<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStream").field("view", &self.view).field("stream", &self.stream).finish()
    }
}
