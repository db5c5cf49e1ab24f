//! Buffers over memory of other libraries, and buffers taken apart.

use std::alloc::Layout;
use std::mem::ManuallyDrop;

use rmm_core::{AnyResource, Context, CudaStream, DevicePtr, Error, StreamRef};

use super::DeviceBuffer;
use crate::block::{Block, check_serves, resource_for};
use crate::foreign::{ForeignMemory, alignment_of};

/// # Memory of other libraries
impl DeviceBuffer {
    /// Adopts the `len` bytes at `pointer`, which another library allocated. Instead of a free, the
    /// buffer calls `free` once: after its last use, with the stream that all of its uses are
    /// ordered before. What `free` captures, such as a counted reference of the other library,
    /// lives until then.
    ///
    /// The buffer is as any other: it is ordered with the streams that use it, and can be lent,
    /// moved to another stream and taken apart. New memory, for a buffer that grows or a clone, is
    /// allocated from the [current resource](rmm_resources::per_device_resource) of the device,
    /// unless the call names a resource.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use rmm_containers::DeviceBuffer;
    /// use rmm_core::CudaStream;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// // In its place: an array of another library, which is counted and freed on its own stream.
    /// let theirs = Arc::new(DeviceBuffer::from_slice(b"theirs", &CudaStream::new()?)?);
    /// let (pointer, len, kept) = (theirs.as_ptr(), theirs.len(), Arc::downgrade(&theirs));
    ///
    /// stream.wait_for(theirs.stream())?; // from here on the memory is ready on `stream`
    /// let release = move |last: rmm_core::StreamRef<'_>| {
    ///     // Their free is in the order of their stream, so that has to wait for the last use.
    ///     theirs.stream().wait_for(last).expect("the device works");
    ///     drop(theirs);
    /// };
    /// // SAFETY: `theirs` keeps the bytes and is not used elsewhere. It frees them in the order of
    /// // its stream, which waits for the last use.
    /// let mut buffer = unsafe { DeviceBuffer::from_foreign(pointer, len, &stream, release) }?;
    /// assert_eq!(buffer.to_vec()?, b"theirs");
    /// buffer.fill(0)?;
    /// drop(buffer);
    /// assert!(kept.upgrade().is_none());
    /// # machine.assert_no_violations();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `free` is not called, and what it captures is dropped, if the context of the memory was
    /// [reset](Error::is_context_lost), which has freed the memory. It is neither called nor
    /// dropped where a buffer of this library leaks its memory: once the process is
    /// [exiting](rmm_core::process_is_exiting), if the driver is gone, and if work still uses the
    /// memory that nothing can wait for. A panic of `free` is caught. If `len` is 0, it is called
    /// at once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for a null pointer with
    /// a length above zero, or a length above `isize::MAX`; an error with
    /// [`is_context_lost`](Error::is_context_lost) if the stream is gone; if there is no driver.
    /// The memory then stays the caller's: `free` is dropped without a call.
    ///
    /// # Safety
    /// 1. `pointer` names `len` bytes of device, managed or pinned memory that work on `stream` can
    ///    read and write, from the work that is enqueued there next, until `free` is called. All
    ///    earlier work on them is ordered before that, or is complete.
    /// 2. Until then, nothing else writes or frees them, nor reads them while the buffer is
    ///    changed.
    /// 3. `free` lets the memory be reused only in the order of the stream that it is given: after
    ///    the work that is enqueued there by then. A free that is ordered on another stream needs a
    ///    wait of that stream; one that takes effect at once needs
    ///    [`synchronize`](StreamRef::synchronize).
    #[doc(alias = "from_blob")]
    #[doc(alias = "UnownedMemory")]
    pub unsafe fn from_foreign<'s>(
        pointer: DevicePtr,
        len: usize,
        stream: impl Into<StreamRef<'s>>,
        free: impl FnOnce(StreamRef<'_>) + Send + 'static,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's contract is the same.
        unsafe { Self::from_foreign_of(pointer, len, 1, stream.into(), free) }
    }

    /// Adopts the `len` bytes at `pointer` as elements with an alignment of `element` bytes, which
    /// the address has. Otherwise as [`from_foreign`](Self::from_foreign).
    ///
    /// # Safety
    /// As for [`from_foreign`](Self::from_foreign).
    pub(crate) unsafe fn from_foreign_of(
        pointer: DevicePtr,
        len: usize,
        element: usize,
        stream: StreamRef<'_>,
        free: impl FnOnce(StreamRef<'_>) + Send + 'static,
    ) -> Result<Self, Error> {
        if pointer == DevicePtr::NULL && len > 0 {
            let message = format!("{len} bytes at a null pointer");
            return Err(Error::invalid_argument("DeviceBuffer", message));
        }
        let layout = super::layout(len, alignment_of(pointer, element))?;
        let context = stream.context()?;
        let _context = context.enter()?;
        if len == 0 {
            let resource = resource_for(stream)?;
            let empty = Self::uninit_aligned_in(0, layout.align(), stream, &resource)?;
            ForeignMemory::new(free).free(stream);
            return Ok(empty);
        }
        let resource = AnyResource::new(ForeignMemory::new(free));
        // SAFETY: the memory is the resource's one block, of this layout; it is ready in the order
        // of the stream, and this block alone frees it, by the caller's contract.
        let block = unsafe { Block::adopt(pointer, layout, stream, resource, context) };
        Ok(Self { block, len })
    }

    /// Takes the buffer apart, without freeing its memory: into the address, layout, length, stream
    /// and resource. The stream waits for the work of other streams on the memory first.
    ///
    /// ```
    /// use rmm_containers::DeviceBuffer;
    /// use rmm_core::{CudaStream, Resource};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// let raw = DeviceBuffer::from_slice(b"bytes", &stream)?.into_raw()?;
    /// assert_eq!((raw.len(), raw.layout().align()), (5, 256));
    /// // SAFETY: the parts are those of a buffer that was taken apart, and used once.
    /// let buffer = unsafe { DeviceBuffer::from_raw(raw) };
    /// assert_eq!(buffer.to_vec()?, b"bytes");
    ///
    /// let raw = buffer.into_raw()?; // or free the memory by the resource
    /// let (pointer, layout) = (raw.as_ptr(), raw.layout());
    /// // SAFETY: the memory is freed before the handle is dropped.
    /// let resource = unsafe { raw.into_resource() };
    /// // SAFETY: it has this layout, and its uses are ordered before this point on the stream.
    /// unsafe { resource.deallocate(&stream, pointer, layout) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`wait_for_other_streams`](Self::wait_for_other_streams). The buffer is then
    /// dropped; call that method first to keep it.
    pub fn into_raw(mut self) -> Result<RawBuffer, Error> {
        self.wait_for_other_streams()?;
        let (pointer, layout) = (self.as_ptr(), self.block.layout());
        let (stream, context) = (self.stream().clone(), self.context());
        let resource = ManuallyDrop::new(self.block.into_resource());
        Ok(RawBuffer { pointer, layout, len: self.len, stream, context, resource })
    }

    /// Makes a buffer of memory that was allocated before: the way back from
    /// [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    /// 1. The memory came from the resource of `raw`, or one equal to it, with this layout; it is
    ///    not freed, and no other container frees it.
    /// 2. All work on it is complete, or ordered before the work that is enqueued on the stream of
    ///    `raw` next. For a default stream, that is the one of the context that is current when
    ///    `raw` is made; for the per-thread default stream, that of the calling thread.
    pub unsafe fn from_raw(raw: RawBuffer) -> Self {
        let RawBuffer { pointer, layout, len, stream, context, resource } = raw;
        let resource = ManuallyDrop::into_inner(resource);
        // SAFETY: the caller's contract.
        let block = unsafe { Block::adopt(pointer, layout, (&stream).into(), resource, context) };
        Self { block, len }
    }
}

/// Device memory that belongs to no container, and what it takes to free it: the parts of a
/// [`DeviceBuffer`].
///
/// Dropping it leaks the memory, and with it the handle to its resource: work may still use the
/// memory, and the last handle to a suballocator frees all of it.
#[derive(Debug)]
#[must_use = "the memory stays allocated until it is freed, or a buffer again"]
pub struct RawBuffer {
    pointer: DevicePtr,
    layout: Layout,
    /// # Invariant
    /// At most the size of the layout.
    len: usize,
    stream: CudaStream,
    context: Context,
    resource: ManuallyDrop<AnyResource>,
}

impl RawBuffer {
    /// The parts of a buffer of `len` bytes in use, whose memory of `layout` is at `pointer`, is
    /// ready on `stream`, and is freed by `resource`. For memory that comes back through a foreign
    /// interface; [`DeviceBuffer::into_raw`] is the usual source.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_containers::{DeviceBuffer, RawBuffer};
    /// use rmm_core::{AnyResource, CudaStream, Resource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let (stream, resource) = (CudaStream::new()?, AnyResource::new(CudaMemoryResource::new()));
    /// let layout = Layout::from_size_align(1024, 256)?;
    /// let pointer = resource.allocate(&stream, layout)?;
    /// let raw = RawBuffer::new(pointer, layout, 1000, &stream, resource)?;
    /// // SAFETY: the memory was allocated just now, with this layout and on this stream.
    /// let buffer = unsafe { DeviceBuffer::from_raw(raw) };
    /// assert_eq!((buffer.len(), buffer.capacity()), (1000, 1024));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if `len` exceeds the
    /// size of the layout, or the resource does not serve the default stream of the current
    /// context; if there is no driver. The memory stays allocated.
    pub fn new<'s>(
        pointer: DevicePtr,
        layout: Layout,
        len: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: AnyResource,
    ) -> Result<Self, Error> {
        let stream = stream.into();
        let resource = ManuallyDrop::new(resource);
        if len > layout.size() {
            let message = format!("{len} bytes of memory that has {}", layout.size());
            return Err(Error::invalid_argument("RawBuffer", message));
        }
        let context = stream.context()?;
        check_serves(stream, &resource, context)?;
        Ok(Self { pointer, layout, len, stream: stream.to_owned(), context, resource })
    }

    /// The address of the memory; null if the size of the layout is 0.
    pub fn as_ptr(&self) -> DevicePtr {
        self.pointer
    }

    /// Size and alignment that the memory was allocated with, in bytes.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Number of bytes in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The stream that all work on the memory is ordered before.
    pub fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// The context that the memory was allocated in.
    pub fn context(&self) -> Context {
        self.context
    }

    /// The resource that frees the memory.
    pub fn resource(&self) -> &AnyResource {
        &self.resource
    }

    /// The handle to the resource, for memory that is freed by it or stored elsewhere.
    ///
    /// # Safety
    /// The handle is not dropped before the memory is freed: the last handle to a suballocator
    /// frees all of its memory, also what work still uses.
    pub unsafe fn into_resource(self) -> AnyResource {
        ManuallyDrop::into_inner(self.resource)
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<RawBuffer>();
};
