//! Elements that work on a stream uses.

use std::fmt;

use rmm_core::{DevicePtr, StreamRef};

use crate::memory::Memory;

/// Elements that work on one stream may use: what kernels are given.
///
/// Work that is enqueued on [`stream`](Self::stream) with [`as_ptr`](Self::as_ptr) while this lives
/// is ordered behind what was done to the elements before, and those who use, move or free them
/// later wait for it. That is noted in the container already: nothing depends on when, or whether,
/// this is dropped. It cannot be sent to another thread, where the stream may mean another one.
///
/// One that is made while the stream is being captured is ordered behind others in the graph. Work
/// that is enqueued with it after the capture is waited for as any other, but is behind nothing
/// that was done outside the graph: ask for another one then.
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
/// use rmm_sim::Kernel;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let (own, other) = (CudaStream::new()?, CudaStream::new()?);
/// let mut vector = DeviceUVector::from_slice(&[1u8; 100], &own)?;
/// let used = vector.use_on_mut(&other)?; // `other` waits for `own`
/// let kernel = Kernel::new("compute", |_| ()).writes(used.as_ptr(), used.bytes());
/// machine.launch(used.stream().as_raw(), kernel).expect("the memory and the stream are the machine's");
/// drop(vector); // freed on `own`, which waits for `other`
/// # Ok(())
/// # }
/// ```
#[must_use = "the memory is used by what is enqueued with its address"]
pub struct OnStream<'s, V> {
    view: V,
    pointer: DevicePtr,
    bytes: usize,
    stream: StreamRef<'s>,
}

impl<'s, V> OnStream<'s, V> {
    pub(crate) fn new(view: V, memory: Memory<'_>, stream: StreamRef<'s>) -> Self {
        Self { view, pointer: memory.pointer(), bytes: memory.bytes(), stream }
    }

    /// Where the elements are; null if there is no memory.
    pub fn as_ptr(&self) -> DevicePtr {
        self.pointer
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The stream. A default stream is that of the container's device.
    pub fn stream(&self) -> StreamRef<'s> {
        self.stream
    }

    /// The view, for use on other streams again.
    pub fn into_view(self) -> V {
        self.view
    }
}

impl<V: fmt::Debug> fmt::Debug for OnStream<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStream").field("view", &self.view).field("stream", &self.stream).finish()
    }
}
