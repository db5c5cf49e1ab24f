//! The constructors of [`DeviceBuffer`].

use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, DevicePtr, DeviceResource, Error, StreamRef, copy,
};
use rmm_resources::current_device_resource;

use super::{DeviceBuffer, layout};
use crate::block::{Block, resource_for};
use crate::common::filled_constructors;

/// # Constructors
///
/// Those without suffix take the [current resource](rmm_resources::per_device_resource) of the
/// stream's device; those that end in `_in` take the resource that is named. Arguments come in the
/// order what, how many, stream, resource.
impl DeviceBuffer {
    /// An empty buffer on the legacy default stream, from the current device's resource.
    ///
    /// # Errors
    /// If there is no driver or no device.
    pub fn empty() -> Result<Self, Error> {
        Self::uninit_in(0, StreamRef::legacy(), &current_device_resource()?)
    }

    /// A buffer of `len` uninitialized bytes, aligned to 256 bytes.
    ///
    /// # Errors
    /// The resource's error if it cannot allocate the memory.
    pub fn uninit<'s>(len: usize, stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        Self::uninit_aligned(len, CUDA_ALLOCATION_ALIGNMENT, stream)
    }

    /// A buffer of `len` uninitialized bytes, aligned to 256 bytes, from `resource`.
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit).
    pub fn uninit_in<'s>(
        len: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        Self::uninit_aligned_in(len, CUDA_ALLOCATION_ALIGNMENT, stream, resource)
    }

    /// A buffer of `len` uninitialized bytes, aligned to `alignment` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the alignment is not
    /// a power of two or `len` exceeds `isize::MAX`; the resource's error if it cannot allocate the
    /// memory or cannot honour the alignment.
    pub fn uninit_aligned<'s>(
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<Self, Error> {
        let stream = stream.into();
        Self::uninit_aligned_in(len, alignment, stream, &resource_for(stream)?)
    }

    /// A buffer of `len` uninitialized bytes, aligned to `alignment` bytes, from `resource`.
    ///
    /// # Errors
    /// The errors of [`uninit_aligned`](Self::uninit_aligned).
    pub fn uninit_aligned_in<'s>(
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let layout = layout(len, alignment)?;
        let (stream, resource) = (stream.into(), AnyResource::of(resource));
        let context = stream.context()?;
        let _context = context.enter()?;
        let block = Block::allocate(layout, stream, resource, context)?;
        Ok(Self { block, len })
    }

    filled_constructors! {
        "buffer" of "bytes", each "the byte"; zero: "that are zero"; u8
    }

    /// A buffer with a copy of `bytes`. The copy is complete on return.
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit); whatever the copy reports.
    pub fn from_slice<'s>(bytes: &[u8], stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        let stream = stream.into();
        Self::from_slice_in(bytes, stream, &resource_for(stream)?)
    }

    /// A buffer with a copy of `bytes`, from `resource`. The copy is complete on return.
    ///
    /// # Errors
    /// The errors of [`from_slice`](Self::from_slice).
    pub fn from_slice_in<'s>(
        bytes: &[u8],
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let mut buffer = Self::uninit_in(bytes.len(), stream, resource)?;
        buffer.copy_from_slice(bytes)?;
        Ok(buffer)
    }

    /// A buffer with a copy of the `len` bytes at `source`, made in the order of `stream` and not
    /// complete on return. The buffer is aligned to 256 bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for a null pointer with
    /// a length above zero; as [`uninit`](Self::uninit); whatever the copy reports.
    ///
    /// # Safety
    /// `source` points to `len` bytes that the device can read, and that are neither written nor
    /// freed before the stream has made the copy. If it is pageable host memory, all writes to it
    /// are complete at the call: the driver may read it at once.
    pub unsafe fn from_device_ptr<'s>(
        source: DevicePtr,
        len: usize,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<Self, Error> {
        let stream = stream.into();
        // SAFETY: the caller's contract is the same.
        unsafe { Self::from_device_ptr_in(source, len, stream, &resource_for(stream)?) }
    }

    /// A buffer from `resource` with a copy of the `len` bytes at `source`, made in the order of
    /// `stream` and not complete on return. The buffer is aligned to 256 bytes.
    ///
    /// # Errors
    /// The errors of [`from_device_ptr`](Self::from_device_ptr).
    ///
    /// # Safety
    /// As for [`from_device_ptr`](Self::from_device_ptr).
    pub unsafe fn from_device_ptr_in<'s>(
        source: DevicePtr,
        len: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let alignment = CUDA_ALLOCATION_ALIGNMENT;
        // SAFETY: the caller's contract is the same.
        unsafe { Self::from_device_ptr_aligned_in(source, len, alignment, stream, resource) }
    }

    /// A buffer, aligned to `alignment` bytes, with a copy of the `len` bytes at `source`, made in
    /// the order of `stream` and not complete on return.
    ///
    /// ```
    /// use rmm_containers::DeviceBuffer;
    /// use rmm_core::CudaStream;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// let source = DeviceBuffer::from_slice(b"bytes", &stream)?;
    /// // SAFETY: the source has 5 bytes and is not changed.
    /// let copy =
    ///     unsafe { DeviceBuffer::from_device_ptr_aligned(source.as_ptr(), 5, 64, &stream) }?;
    /// assert_eq!((copy.alignment(), copy.to_vec()?), (64, b"bytes".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`from_device_ptr`](Self::from_device_ptr) and
    /// [`uninit_aligned`](Self::uninit_aligned).
    ///
    /// # Safety
    /// As for [`from_device_ptr`](Self::from_device_ptr).
    pub unsafe fn from_device_ptr_aligned<'s>(
        source: DevicePtr,
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<Self, Error> {
        let stream = stream.into();
        let resource = resource_for(stream)?;
        // SAFETY: the caller's contract is the same.
        unsafe { Self::from_device_ptr_aligned_in(source, len, alignment, stream, &resource) }
    }

    /// A buffer from `resource`, aligned to `alignment` bytes, with a copy of the `len` bytes at
    /// `source`, made in the order of `stream` and not complete on return.
    ///
    /// # Errors
    /// The errors of [`from_device_ptr_aligned`](Self::from_device_ptr_aligned).
    ///
    /// # Safety
    /// As for [`from_device_ptr`](Self::from_device_ptr).
    pub unsafe fn from_device_ptr_aligned_in<'s>(
        source: DevicePtr,
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        if source == DevicePtr::NULL && len > 0 {
            let message = format!("{len} bytes at a null pointer");
            return Err(Error::invalid_argument("DeviceBuffer", message));
        }
        let buffer = Self::uninit_aligned_in(len, alignment, stream, resource)?;
        // SAFETY: the new memory belongs to the stream and has `len` bytes; the source has as many,
        // by the caller's contract. They do not overlap, since the new memory was free.
        unsafe { copy::device_to_device(buffer.as_ptr(), source, len, buffer.stream()) }?;
        Ok(buffer)
    }
}
