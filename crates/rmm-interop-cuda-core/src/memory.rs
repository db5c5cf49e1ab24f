//! Containers as storage of `cuda-core`.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_core::{Context, DeviceAllocation, RawDeviceBuffer};
use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::Error;

use crate::{NAME, is_same};

/// A container that becomes storage of `cuda-core`, in the same memory.
///
/// The container is dropped, and its memory goes back to its resource, when the last view of the
/// storage is gone and the work that was submitted through it is complete: on a thread of
/// `cuda-core`'s.
///
/// `cuda-core` lets two streams use the storage one after the other, if the former is complete:
/// else its calls fail with `CUDA_ERROR_NOT_READY`. It knows nothing of work that was enqueued
/// before, so this waits for that: the host does, until all uses of the container are complete.
pub trait IntoCudaCore: Sized {
    /// What it becomes.
    type Storage;

    /// Waits for the work that uses the container, and gives its memory to `cuda-core`.
    ///
    /// # Errors
    /// If `context` is not the one that the memory was allocated in, the driver refuses, or the
    /// device has failed. The error has the container.
    fn into_cuda_core(self, context: &Arc<Context>) -> Result<Self::Storage, NotTaken<Self>>;
}

/// Why a container did not become storage of `cuda-core`, and the container.
#[derive(Debug)]
pub struct NotTaken<C> {
    /// As it was.
    pub container: C,
    /// What is wrong.
    pub error: Error,
}

impl<C: fmt::Debug> std::error::Error for NotTaken<C> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<C> fmt::Display for NotTaken<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the container cannot become storage of cuda-core")
    }
}

impl<C> From<NotTaken<C>> for Error {
    fn from(not_taken: NotTaken<C>) -> Self {
        not_taken.error
    }
}

impl IntoCudaCore for DeviceBuffer {
    type Storage = RawDeviceBuffer;

    fn into_cuda_core(mut self, context: &Arc<Context>) -> Result<RawDeviceBuffer, NotTaken<Self>> {
        match settle(&mut self, context) {
            Ok(()) => {
                let bytes = self.len();
                let owner = Allocation { buffer: self, context: Arc::clone(context) };
                Ok(RawDeviceBuffer::foreign(Arc::new(owner), bytes))
            }
            Err(error) => Err(NotTaken { container: self, error }),
        }
    }
}

impl<T: Pod> IntoCudaCore for DeviceUVector<T> {
    type Storage = cuda_core::DeviceBuffer<T>;

    fn into_cuda_core(self, context: &Arc<Context>) -> Result<Self::Storage, NotTaken<Self>> {
        let len = self.len();
        let storage = match self.into_buffer().into_cuda_core(context) {
            Ok(storage) => storage,
            Err(NotTaken { container, error }) => {
                let container = Self::try_from_buffer(container);
                let container = container.expect("it is the buffer of such a vector");
                return Err(NotTaken { container, error });
            }
        };
        // SAFETY: every element is a valid `T`, whatever its bytes are. All views of the storage
        // come from the result: the vector gave it away.
        let typed = unsafe { cuda_core::DeviceBuffer::from_storage(storage, len) };
        Ok(typed.expect("a vector's memory has the length and the alignment of its elements"))
    }
}

/// Waits until no work uses the buffer.
fn settle(buffer: &mut DeviceBuffer, context: &Context) -> Result<(), Error> {
    if !is_same(buffer.context(), context) {
        let message = "the memory was allocated in another context than the one that was given";
        return Err(Error::invalid_argument(NAME, message));
    }
    buffer.wait_for_other_streams()?;
    buffer.stream().synchronize()
}

/// The owner of a foreign allocation, as `cuda-core` asks for one.
struct Allocation {
    buffer: DeviceBuffer,
    context: Arc<Context>,
}

// SAFETY: the buffer's memory stays where it is until the buffer is dropped, since nothing here
// resizes it, and the context, in which it was allocated, exists for as long.
unsafe impl DeviceAllocation for Allocation {
    fn device_ptr(&self) -> u64 {
        self.buffer.as_ptr().0
    }

    fn len_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn context(&self) -> Arc<Context> {
        Arc::clone(&self.context)
    }
}
