//! Untyped device memory.

mod contents;
mod foreign;
mod make;

use std::alloc::Layout;
use std::fmt;

use rmm_core::{
    AnyResource, Context, CudaStream, Device, DevicePtr, DeviceResource, Error, HasResource,
    StreamRef, copy,
};

use crate::block::Block;

pub use foreign::RawBuffer;

/// Bytes in device memory that belong to one stream.
///
/// The memory comes from a resource; the buffer keeps a handle to it. Dropping the buffer frees
/// the memory in the order of the buffer's stream. Work on other streams is ordered by the calls
/// that name them; see the [crate](crate#stream-order).
///
/// The buffer remembers the context that its stream belongs to (for a default stream, the context
/// that was current when the buffer was made). Each call makes that context current and restores
/// the former one.
///
/// ```
/// use rmm_containers::DeviceBuffer;
/// use rmm_core::CudaStream;
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let zeros = DeviceBuffer::zeroed(1024, &stream)?; // from the current resource
/// assert_eq!(zeros.to_vec()?, [0; 1024]);
///
/// let resource = CudaAsyncMemoryResource::new()?;
/// let mut buffer = DeviceBuffer::from_slice_in(b"hello", &stream, &resource)?;
/// buffer.resize(8)?;
/// assert_eq!(buffer.len(), 8);
/// assert_eq!(buffer.to_vec()?[..5], *b"hello");
/// # Ok(())
/// # }
/// ```
///
/// Moving the memory out consumes the buffer, so a moved-from buffer cannot be used:
///
/// ```compile_fail,E0382
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// # let vector = rmm_containers::DeviceUVector::from_slice(&[1, 2], &stream)?;
/// let buffer = vector.into_buffer();
/// assert_eq!(vector.len(), 0);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::device_buffer")]
#[doc(alias = "cuda::buffer")]
pub struct DeviceBuffer {
    block: Block,
    /// # Invariant
    /// At most the size of the block's layout.
    len: usize,
}

impl DeviceBuffer {
    /// Names the buffer. Its `Debug` output, its out-of-range errors and the software device's
    /// reports show the name.
    ///
    /// ```
    /// use rmm_containers::DeviceBuffer;
    /// use rmm_core::CudaStream;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// let weights = DeviceBuffer::zeroed(4, &stream)?.with_name("weights");
    /// let error = weights.as_slice().slice(2..6).unwrap_err();
    /// assert_eq!(error.to_string(), "out of range in DeviceSlice: 2..6 of 4 in `weights`");
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.block.set_name(name.into().into_boxed_str());
        self
    }

    /// The name, if the buffer [has one](Self::with_name).
    pub fn name(&self) -> Option<&str> {
        self.block.tracker().name()
    }

    /// The address of the memory; null if the capacity is 0.
    ///
    /// Work that the program enqueues on the [buffer's stream](Self::stream) with this address is
    /// ordered with the calls of this type. It is *not* ordered after work that other streams do on
    /// slices of the buffer or through [`use_on`](Self::use_on):
    /// [`wait_for_other_streams`](Self::wait_for_other_streams) orders it, and so does
    /// [`use_on_mut`](Self::use_on_mut), which also gives the address for use on other streams.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.block.pointer()
    }

    /// Number of bytes in use.
    #[doc(alias = "size")]
    #[doc(alias = "ssize")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of bytes allocated.
    pub fn capacity(&self) -> usize {
        self.block.layout().size()
    }

    /// The alignment that the memory was allocated with, in bytes.
    pub fn alignment(&self) -> usize {
        self.block.layout().align()
    }

    /// The stream that the buffer belongs to. If it is the per-thread default stream, it denotes
    /// that of the calling thread.
    pub fn stream(&self) -> &CudaStream {
        self.block.stream()
    }

    /// The resource that the memory came from.
    #[doc(alias = "memory_resource")]
    pub fn resource(&self) -> &AnyResource {
        self.block.resource()
    }

    /// The context that the buffer was made in, which its calls make current.
    pub fn context(&self) -> Context {
        self.block.tracker().context()
    }

    /// The device that the buffer was made on.
    ///
    /// # Errors
    /// An error with [`is_context_lost`](Error::is_context_lost) if the device was reset; whatever
    /// the driver reports.
    pub fn device(&self) -> Result<Device, Error> {
        let _context = self.context().enter()?;
        Device::current()
    }

    /// Moves the buffer to another stream. Work enqueued on the new stream from now on is ordered
    /// after all work enqueued for the buffer so far, on any stream. The memory will be freed on
    /// the new stream.
    ///
    /// # Errors
    /// Whatever the driver reports; [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported)
    /// while either stream is being captured. The buffer then stays on its stream.
    pub fn set_stream<'a>(&mut self, stream: impl Into<StreamRef<'a>>) -> Result<(), Error> {
        self.block.tracker_mut().rebind(stream.into())
    }

    /// Makes the buffer's stream wait for all work that other streams do on the buffer, so that the
    /// program may use [`as_ptr`](Self::as_ptr) on it. Makes no driver call if there is no such
    /// work. The host does not wait.
    ///
    /// # Errors
    /// Whatever the driver reports; [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported)
    /// if a capture would record the wait into a graph while the work itself runs outside it.
    pub fn wait_for_other_streams(&mut self) -> Result<(), Error> {
        self.block.tracker_mut().join_all()
    }

    /// Grows the capacity to at least `capacity` bytes. The contents are kept; the memory moves if
    /// it grows.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if `capacity` exceeds
    /// `isize::MAX`; the resource's error. The buffer is then unchanged.
    pub fn reserve(&mut self, capacity: usize) -> Result<(), Error> {
        if capacity > self.capacity() { self.reallocate(capacity) } else { Ok(()) }
    }

    /// Sets the length. Bytes beyond the former length are uninitialized. The memory moves only if
    /// the capacity has to grow.
    ///
    /// # Errors
    /// The errors of [`reserve`](Self::reserve). The buffer is then unchanged.
    pub fn resize(&mut self, len: usize) -> Result<(), Error> {
        self.reserve(len)?;
        self.len = len;
        Ok(())
    }

    /// Frees the capacity beyond the length. If there is any, the contents move to new memory.
    ///
    /// # Errors
    /// The errors of [`reserve`](Self::reserve). The buffer is then unchanged.
    pub fn shrink_to_fit(&mut self) -> Result<(), Error> {
        if self.capacity() > self.len { self.reallocate(self.len) } else { Ok(()) }
    }

    /// Moves the contents to new memory of `capacity` bytes, which is at least the length.
    fn reallocate(&mut self, capacity: usize) -> Result<(), Error> {
        let layout = layout(capacity, self.alignment())?;
        let context = self.context();
        let _context = context.enter()?;
        let (stream, resource) = (self.stream().clone(), self.block.resource_of_new()?);
        let mut new = Block::allocate(layout, (&stream).into(), resource, context)?;
        self.wait_for_other_streams()?;
        // SAFETY: both are device memory of at least `len` bytes that do not overlap; the new one
        // belongs to this stream, and all uses of the old one are ordered before this point on it.
        unsafe { copy::device_to_device(new.pointer(), self.as_ptr(), self.len, &stream) }?;
        if let Some(name) = self.name() {
            new.set_name(name.into());
        }
        self.block = new;
        Ok(())
    }

    /// Copies the contents to a new buffer on the same stream, from the same resource and with the
    /// same alignment. The copy's capacity is its length.
    ///
    /// # Errors
    /// The resource's error; whatever the copy reports.
    pub fn try_clone(&self) -> Result<Self, Error> {
        self.try_clone_on(self.stream())
    }

    /// Copies the contents to a new buffer on another stream, from the same resource and with the
    /// same alignment. The copy runs in the order of that stream, and before any work enqueued on
    /// this buffer's stream from now on.
    ///
    /// # Errors
    /// The errors of [`try_clone`](Self::try_clone).
    pub fn try_clone_on<'a>(&self, stream: impl Into<StreamRef<'a>>) -> Result<Self, Error> {
        self.try_clone_in(stream, &self.block.resource_of_new()?)
    }

    /// Copies the contents to a new buffer on another stream, from `resource`, with the same
    /// alignment. The copy runs in the same order as that of [`try_clone_on`](Self::try_clone_on).
    ///
    /// # Errors
    /// The errors of [`try_clone`](Self::try_clone).
    pub fn try_clone_in<'a>(
        &self,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let _context = self.context().enter()?;
        let mut cloned = Self::uninit_aligned_in(self.len, self.alignment(), stream, resource)?;
        cloned.copy_from(self.as_slice())?;
        self.block.tracker().join_into_owner(cloned.stream().into())?;
        Ok(cloned)
    }
}

fn layout(bytes: usize, alignment: usize) -> Result<Layout, Error> {
    Layout::from_size_align(bytes, alignment).map_err(|error| {
        let message = format!("{bytes} bytes aligned to {alignment}");
        Error::invalid_argument("DeviceBuffer", message).with_source(error)
    })
}

impl HasResource for DeviceBuffer {
    type Resource = AnyResource;

    fn memory_resource(&self) -> &AnyResource {
        self.resource()
    }
}

/// Addresses and sizes, not the contents.
impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("DeviceBuffer");
        if let Some(name) = self.name() {
            fields.field("name", &name);
        }
        fields
            .field("pointer", &self.as_ptr())
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .field("alignment", &self.alignment())
            .field("stream", self.stream())
            .field("used_on", self.block.tracker())
            .field("resource", self.resource())
            .finish()
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<DeviceBuffer>();
};
