//! Bytes in device memory.

mod contents;

use std::alloc::Layout;
use std::fmt;

use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, Context, CudaStream, DevicePtr, DeviceResource, Error,
    HasResource, StreamRef, allocation_alignment, copy,
};
use rmm_resources::current_device_resource;

use crate::block::Block;

/// Bytes in device memory, on a stream.
///
/// The memory comes from a resource, of which the buffer keeps a handle, and goes back to it in the
/// order of the buffer's stream when the buffer is dropped. Other streams use it by calls that name
/// them, and that order the two; see the [crate](crate#order).
///
/// The context of its stream is made current for what the buffer does with its memory, and for the
/// resource to allocate in. For a default stream that is the one that was current when the buffer
/// was made.
///
/// ```
/// use rmm_containers::DeviceBuffer;
/// use rmm_core::CudaStream;
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let resource = CudaAsyncMemoryResource::new()?;
/// let stream = CudaStream::new()?;
/// let mut buffer = DeviceBuffer::from_slice(b"hello", &stream, &resource)?;
/// buffer.resize(8)?;
/// assert_eq!(buffer.len(), 8);
/// assert_eq!(buffer.to_vec(&stream)?[..5], *b"hello");
/// # Ok(())
/// # }
/// ```
///
/// There is no buffer whose memory was moved out:
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
    /// Not above the size of the block's layout.
    len: usize,
}

impl DeviceBuffer {
    /// A buffer without bytes, on the legacy default stream and from the [current device's
    /// resource](current_device_resource), to grow.
    ///
    /// # Errors
    /// If there is no driver or no device.
    pub fn empty() -> Result<Self, Error> {
        Self::uninit(0, StreamRef::legacy(), &current_device_resource()?)
    }

    /// A buffer of `len` bytes whose contents are arbitrary, aligned to 256 bytes.
    ///
    /// # Errors
    /// The resource's error if it has no memory.
    pub fn uninit<'a>(
        len: usize,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        Self::uninit_aligned(len, CUDA_ALLOCATION_ALIGNMENT, stream, resource)
    }

    /// A buffer of `len` bytes whose contents are arbitrary, aligned as `alignment` asks for: a
    /// number of bytes, or another container.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is no
    /// power of two or the size is too large for any memory; the resource's error if it has no
    /// memory, or cannot align so.
    pub fn uninit_aligned<'a>(
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let layout = layout(len, allocation_alignment::<u8>(alignment)?)?;
        let (stream, resource) = (stream.into(), AnyResource::of(resource));
        let context = stream.context()?;
        let _context = context.enter()?;
        let block = Block::allocate(layout, stream, resource, context)?;
        Ok(Self { block, len })
    }

    /// A buffer with a copy of `bytes`, which is complete on return.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit), and whatever the copy reports.
    pub fn from_slice<'a>(
        bytes: &[u8],
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let mut buffer = Self::uninit(bytes.len(), stream, resource)?;
        buffer.copy_from_slice(bytes)?;
        Ok(buffer)
    }

    /// A buffer with a copy of `len` bytes at an address that the driver knows, in the order of
    /// `stream`: not complete on return. It is aligned to 256 bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for a null pointer and
    /// a length above zero; as [`uninit`](Self::uninit), and whatever the copy reports.
    ///
    /// # Safety
    /// `source` is memory that the device can read, at least `len` bytes long, which is neither
    /// written nor freed before the stream has passed the copy. If it is ordinary memory of the
    /// host what writes it is complete at the call: the driver may read it at once.
    pub unsafe fn from_device_ptr<'a>(
        source: DevicePtr,
        len: usize,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let alignment = CUDA_ALLOCATION_ALIGNMENT;
        // SAFETY: the caller's contract.
        unsafe { Self::from_device_ptr_aligned(source, len, alignment, stream, resource) }
    }

    /// As [`from_device_ptr`](Self::from_device_ptr), with the copy aligned as `alignment` asks
    /// for: a number of bytes, or another container.
    ///
    /// ```
    /// use rmm_containers::DeviceBuffer;
    /// use rmm_core::CudaStream;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let (stream, resource) = (CudaStream::new()?, CudaMemoryResource::new());
    /// let source = DeviceBuffer::from_slice(b"bytes", &stream, &resource)?;
    /// // SAFETY: the source has 5 bytes, and is changed by nobody.
    /// let copy = unsafe {
    ///     DeviceBuffer::from_device_ptr_aligned(source.as_ptr(), 5, 64, &stream, &resource)
    /// }?;
    /// assert_eq!((copy.alignment(), copy.to_vec(&stream)?), (64, b"bytes".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`from_device_ptr`](Self::from_device_ptr) and [`uninit_aligned`](Self::uninit_aligned).
    ///
    /// # Safety
    /// As for [`from_device_ptr`](Self::from_device_ptr).
    pub unsafe fn from_device_ptr_aligned<'a>(
        source: DevicePtr,
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        if source == DevicePtr::NULL && len > 0 {
            let message = format!("{len} bytes at a null pointer");
            return Err(Error::invalid_argument("DeviceBuffer", message));
        }
        let buffer = Self::uninit_aligned(len, alignment, stream, resource)?;
        // SAFETY: the new memory is the stream's and as long; the source is, by the caller's
        // contract, and does not overlap it, since the new memory was nobody's.
        unsafe { copy::device_to_device(buffer.as_ptr(), source, len, buffer.stream()) }?;
        Ok(buffer)
    }

    /// Where the memory is; null if the capacity is 0.
    ///
    /// Work that is enqueued on the [buffer's stream](Self::stream) with this address is in order
    /// with what this type's calls enqueue. What other streams do by way of a slice or of
    /// [`use_on`](Self::use_on) is settled later: [`use_on_mut`](Self::use_on_mut) gives the
    /// address in order with that too, and for other streams.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.block.pointer()
    }

    /// Bytes in use.
    #[doc(alias = "size")]
    #[doc(alias = "ssize")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.block.layout().size()
    }

    /// The alignment that the memory was asked for with, in bytes.
    pub fn alignment(&self) -> usize {
        self.block.layout().align()
    }

    /// The stream that the buffer is on. If it is the per-thread default stream, it means that of
    /// the calling thread.
    pub fn stream(&self) -> &CudaStream {
        self.block.stream()
    }

    /// The resource that the memory came from.
    #[doc(alias = "memory_resource")]
    pub fn resource(&self) -> &AnyResource {
        self.block.resource()
    }

    /// The context of the stream that the buffer was made on, which is current for what it does.
    pub fn context(&self) -> Context {
        self.block.order().context()
    }

    /// Moves the buffer to another stream: what is enqueued there from now on is ordered after what
    /// was enqueued for the buffer so far, on whichever stream, and its memory will be freed there.
    ///
    /// # Errors
    /// If the driver refuses, and [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported)
    /// while either stream is being captured; then the buffer stays where it was.
    pub fn set_stream<'a>(&mut self, stream: impl Into<StreamRef<'a>>) -> Result<(), Error> {
        self.block.order_mut().move_home(stream.into())
    }

    /// Has the buffer's stream wait for all work that other streams do on the buffer, so that its
    /// address may be used there with no more ado. Costs nothing if there is none.
    ///
    /// # Errors
    /// If the driver refuses, and [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported)
    /// while a capture would make the wait part of a graph, though the work is not.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.block.order_mut().settle()
    }

    /// Makes room for `capacity` bytes in all. Existing contents are kept; the memory moves if it
    /// grows.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if that is too much for
    /// any memory; the resource's error. Then nothing has changed.
    pub fn reserve(&mut self, capacity: usize) -> Result<(), Error> {
        if capacity > self.capacity() { self.reallocate(capacity) } else { Ok(()) }
    }

    /// Changes the number of bytes in use. Bytes beyond the former length are arbitrary. Never
    /// moves when shrinking.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); then nothing has changed.
    pub fn resize(&mut self, len: usize) -> Result<(), Error> {
        self.reserve(len)?;
        self.len = len;
        Ok(())
    }

    /// Gives back the capacity beyond the length, by moving if there is any.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); then nothing has changed.
    pub fn shrink_to_fit(&mut self) -> Result<(), Error> {
        if self.capacity() > self.len { self.reallocate(self.len) } else { Ok(()) }
    }

    /// Moves to memory of `capacity` bytes, not below the length, with the contents.
    fn reallocate(&mut self, capacity: usize) -> Result<(), Error> {
        let layout = layout(capacity, self.alignment())?;
        let context = self.context();
        let _context = context.enter()?;
        let (stream, resource) = (self.stream().clone(), self.resource().clone());
        let new = Block::allocate(layout, stream.as_stream_ref(), resource, context)?;
        self.settle()?;
        // SAFETY: both are device memory of at least `len` bytes that do not overlap; the new one
        // belongs to this stream, and all uses of the old one are ordered before this place on it.
        unsafe { copy::device_to_device(new.pointer(), self.as_ptr(), self.len, &stream) }?;
        self.block = new;
        Ok(())
    }

    /// A buffer on `stream` with the same contents and alignment, from the same resource. Its
    /// capacity is its length. The copy is in the stream's order, and before what is enqueued on
    /// this buffer's stream from now on.
    ///
    /// # Errors
    /// The resource's error, or whatever the copy reports.
    pub fn try_clone_on<'a>(&self, stream: impl Into<StreamRef<'a>>) -> Result<Self, Error> {
        self.try_clone_in(stream, self.resource())
    }

    /// As [`try_clone_on`](Self::try_clone_on), from another resource.
    ///
    /// # Errors
    /// The resource's error, or whatever the copy reports.
    pub fn try_clone_in<'a>(
        &self,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let _context = self.context().enter()?;
        let mut cloned = Self::uninit_aligned(self.len, self.alignment(), stream, resource)?;
        cloned.copy_from(self.as_slice())?;
        self.block.order().come_home(cloned.stream().as_stream_ref())?;
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

/// Addresses and sizes, never contents.
impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer")
            .field("pointer", &self.as_ptr())
            .field("len", &self.len)
            .field("capacity", &self.capacity())
            .field("alignment", &self.alignment())
            .field("stream", self.stream())
            .field("used_on", self.block.order())
            .field("resource", self.resource())
            .finish()
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<DeviceBuffer>();
};
