//! Bytes in device memory.

use std::alloc::Layout;

use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, Context, CudaStream, Device, DevicePtr, DeviceResource,
    Error, HasAllocationAlignment, HasResource, Resource, StreamId, StreamRef, copy,
    process_is_exiting,
};

/// Bytes in device memory, on a stream.
///
/// The memory comes from a resource, of which the buffer keeps a handle, and goes back to it in the stream's order when the
/// buffer is dropped: work that is enqueued on the stream may still use it then. Work on other streams must be ordered
/// before that with an event, or [`set_stream`](Self::set_stream) be called.
///
/// The context that was current when it was made is made current for what the buffer does with its memory.
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
#[doc(alias = "rmm::device_buffer")]
#[derive(Debug)]
pub struct DeviceBuffer {
    /// # Invariant
    /// `capacity` bytes from `resource`, allocated with `alignment`, usable in the order of `stream`; null if `capacity` is 0.
    pointer: DevicePtr,
    capacity: usize,
    alignment: usize,
    /// # Invariant
    /// Not above `capacity`.
    len: usize,
    stream: CudaStream,
    /// The stream's id when it became the buffer's. Differs from the stream's own if that is the per-thread default stream and
    /// the buffer was moved to another thread.
    stream_id: StreamId,
    /// Where the memory and the stream belong.
    context: Context,
    resource: AnyResource,
}

impl DeviceBuffer {
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

    /// A buffer of `len` bytes whose contents are arbitrary, aligned to `alignment` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is no power of two or the size is
    /// too large for any memory; the resource's error if it has no memory, or can not align so.
    pub fn uninit_aligned<'a>(
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let stream = stream.into();
        Self::allocate(len, alignment, stream, AnyResource::of(resource), Context::current()?)
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

    fn allocate(
        capacity: usize,
        alignment: usize,
        stream: StreamRef<'_>,
        resource: AnyResource,
        context: Context,
    ) -> Result<Self, Error> {
        let layout = Layout::from_size_align(capacity, alignment).map_err(|error| {
            let message = format!("{capacity} bytes aligned to {alignment}");
            Error::invalid_argument("DeviceBuffer", message).with_source(error)
        })?;
        let pointer = resource.allocate(stream, layout)?;
        let (stream_id, stream) = (stream.id(), stream.to_owned());
        Ok(Self {
            pointer,
            capacity,
            alignment,
            len: capacity,
            stream,
            stream_id,
            context,
            resource,
        })
    }

    /// Where the memory is; null if the capacity is 0.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.pointer
    }

    /// Bytes in use.
    #[doc(alias = "size")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The alignment that the memory was asked for with, in bytes.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// The stream that the buffer is on.
    pub fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// The resource that the memory came from.
    #[doc(alias = "memory_resource")]
    pub fn resource(&self) -> &AnyResource {
        &self.resource
    }

    /// Moves the buffer to another stream: what is enqueued there from now on is ordered after what was enqueued for the buffer
    /// so far, and its memory will be freed there.
    ///
    /// # Errors
    /// If the driver refuses; then the buffer stays where it was.
    pub fn set_stream<'a>(&mut self, stream: impl Into<StreamRef<'a>>) -> Result<(), Error> {
        let stream = stream.into();
        let _context = self.context.enter()?;
        self.order_before(stream)?;
        self.stream_id = stream.id();
        self.stream = stream.to_owned();
        Ok(())
    }

    /// Orders what was enqueued on the buffer's stream so far before what is enqueued on `stream` from now on.
    fn order_before(&self, stream: StreamRef<'_>) -> Result<(), Error> {
        let own = self.stream.as_ref();
        if own.id() != self.stream_id {
            // The default stream of another thread can not be reached from this one.
            return Device::synchronize_current();
        }
        stream.wait_for(own)
    }

    /// The buffer's stream, to enqueue more work on. If it was the default stream of another thread it is this thread's from
    /// now on.
    fn own_stream(&mut self) -> Result<StreamRef<'_>, Error> {
        let id = self.stream.as_ref().id();
        if id != self.stream_id {
            Device::synchronize_current()?;
            self.stream_id = id;
        }
        Ok(self.stream.as_ref())
    }

    /// Makes room for `capacity` bytes in all. Existing contents are kept; the memory moves if it grows.
    ///
    /// # Errors
    /// The resource's error; then nothing has changed.
    pub fn reserve(&mut self, capacity: usize) -> Result<(), Error> {
        if capacity > self.capacity { self.reallocate(capacity, self.len) } else { Ok(()) }
    }

    /// Changes the number of bytes in use. Bytes beyond the former length are arbitrary. Never moves when shrinking.
    ///
    /// # Errors
    /// The resource's error; then nothing has changed.
    pub fn resize(&mut self, len: usize) -> Result<(), Error> {
        if len > self.capacity {
            self.reallocate(len, self.len)?;
        }
        self.len = len;
        Ok(())
    }

    /// Gives back the capacity beyond the length, by moving if there is any.
    ///
    /// # Errors
    /// The resource's error; then nothing has changed.
    pub fn shrink_to_fit(&mut self) -> Result<(), Error> {
        if self.capacity > self.len { self.reallocate(self.len, self.len) } else { Ok(()) }
    }

    /// Moves to memory of `capacity` bytes with the first `len` bytes of the contents.
    fn reallocate(&mut self, capacity: usize, len: usize) -> Result<(), Error> {
        let _context = self.context.enter()?;
        let (alignment, resource, context) = (self.alignment, self.resource.clone(), self.context);
        let stream = self.own_stream()?;
        let mut new = Self::allocate(capacity, alignment, stream, resource, context)?;
        // SAFETY: both are device memory of at least `len` bytes that do not overlap, and both belong to this stream.
        unsafe { copy::device_to_device(new.pointer, self.pointer, len, self.stream.as_ref()) }?;
        new.len = len;
        *self = new;
        Ok(())
    }

    /// A buffer on `stream` with the same contents and alignment, from the same resource. Its capacity is its length.
    ///
    /// # Errors
    /// The resource's error, or whatever the copy reports.
    pub fn try_clone<'a>(&self, stream: impl Into<StreamRef<'a>>) -> Result<Self, Error> {
        let stream = stream.into();
        let _context = self.context.enter()?;
        self.order_before(stream)?;
        let copied =
            Self::allocate(self.len, self.alignment, stream, self.resource.clone(), self.context)?;
        // SAFETY: both are device memory of `len` bytes that do not overlap; the new one belongs to the stream, the old one's
        // work is ordered before it.
        unsafe { copy::device_to_device(copied.pointer, self.pointer, self.len, stream) }?;
        // The source may be written or freed on its own stream only after it was read.
        let own = self.stream.as_ref();
        if own.id() != self.stream_id || own.wait_for(stream).is_err() {
            stream.synchronize()?;
        }
        Ok(copied)
    }

    /// Overwrites the first bytes with `bytes`; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are more bytes than the buffer's length; whatever the
    /// copy reports.
    pub fn copy_from_slice(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.check_range(bytes.len())?;
        let _context = self.context.enter()?;
        let pointer = self.pointer;
        let stream = self.own_stream()?;
        // SAFETY: the memory is this buffer's, at least as long, on its own stream, and the source is borrowed until the
        // synchronization below has returned.
        let enqueued =
            unsafe { copy::host_to_device(pointer, bytes.as_ptr().cast(), bytes.len(), stream) };
        enqueued.and(finish(stream))
    }

    /// Copies the first bytes to the host, after all that was enqueued on `stream` and on the buffer's own stream so far.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `bytes` is longer than the buffer; whatever the copy
    /// reports.
    pub fn copy_to_slice<'a>(
        &self,
        bytes: &mut [u8],
        stream: impl Into<StreamRef<'a>>,
    ) -> Result<(), Error> {
        let stream = stream.into();
        self.check_range(bytes.len())?;
        let _context = self.context.enter()?;
        self.order_before(stream)?;
        // SAFETY: the memory is this buffer's, at least as long, its work is ordered before this place on the stream, and the
        // target is borrowed until the synchronization below has returned.
        let enqueued = unsafe {
            copy::device_to_host(bytes.as_mut_ptr().cast(), self.pointer, bytes.len(), stream)
        };
        enqueued.and(finish(stream))
    }

    /// The contents, copied to the host as [`copy_to_slice`](Self::copy_to_slice).
    ///
    /// # Errors
    /// Whatever the copy reports.
    pub fn to_vec<'a>(&self, stream: impl Into<StreamRef<'a>>) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.len];
        self.copy_to_slice(&mut bytes, stream)?;
        Ok(bytes)
    }

    /// Sets all bytes to `value`, in the order of the buffer's stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn fill(&mut self, value: u8) -> Result<(), Error> {
        let _context = self.context.enter()?;
        let (pointer, len) = (self.pointer, self.len);
        let stream = self.own_stream()?;
        // SAFETY: the memory is this buffer's, at least `len` bytes, on its own stream.
        unsafe { copy::fill(pointer, value, len, stream) }
    }

    fn check_range(&self, bytes: usize) -> Result<(), Error> {
        if bytes <= self.len {
            return Ok(());
        }
        Err(Error::out_of_range("DeviceBuffer", format!("{bytes} bytes of {}", self.len)))
    }
}

impl HasResource for DeviceBuffer {
    type Resource = AnyResource;

    fn memory_resource(&self) -> &AnyResource {
        &self.resource
    }
}

impl HasAllocationAlignment for DeviceBuffer {
    fn allocation_alignment(&self) -> usize {
        self.alignment
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // At the end of the process the system takes everything back, and the driver may be gone.
        if self.capacity == 0 || process_is_exiting() {
            return;
        }
        let Ok(layout) = Layout::from_size_align(self.capacity, self.alignment) else { return };
        // If the driver is gone there is nothing to enter, to wait for or to free.
        let Ok(_context) = self.context.enter() else { return };
        let stream = self.stream.as_ref();
        if stream.id() != self.stream_id && Device::synchronize_current().is_err() {
            return;
        }
        // SAFETY: the memory came from this resource with this layout. Its uses are ordered before this place on its stream;
        // where that stream could not be reached from here, they have completed.
        unsafe { self.resource.deallocate(stream, self.pointer, layout) };
    }
}

/// Waits until a copy from or to borrowed host memory is done. If the stream can not be waited for, the whole device is: the
/// borrow ends with the call.
fn finish(stream: StreamRef<'_>) -> Result<(), Error> {
    stream.synchronize().inspect_err(|_| {
        // If this fails too the device is lost, and works on nothing any more.
        let _lost = Device::synchronize_current();
    })
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<DeviceBuffer>();
};
