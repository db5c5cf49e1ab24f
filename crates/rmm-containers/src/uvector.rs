//! Elements in device memory.

use bytemuck::Pod;
use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, CudaStream, DevicePtr, DeviceResource, Error,
    HasAllocationAlignment, HasResource, StreamRef, allocation_alignment,
};
use rmm_resources::current_device_resource;
use std::marker::PhantomData;

use crate::DeviceBuffer;

/// Elements of a plain type in device memory, on a stream: a typed [`DeviceBuffer`].
///
/// The type must be one that may be copied byte by byte and whose every bit pattern is a value ([`bytemuck::Pod`]), since a
/// device writes what it likes. Anything else does not compile:
///
/// ```compile_fail,E0277
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// let references = rmm_containers::DeviceUVector::from_slice(&["text"], &stream)?;
/// # Ok(())
/// # }
/// ```
///
/// Nor does an element without size. Memory is aligned to 256 bytes, or to the type's alignment if that is more.
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let stream = CudaStream::new()?;
/// let vector = DeviceUVector::from_slice(&[1.0f32, 2.0, 3.0], &stream)?;
/// assert_eq!(vector.to_vec(&stream)?, [1.0, 2.0, 3.0]);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::device_uvector")]
#[derive(Debug)]
pub struct DeviceUVector<T> {
    /// # Invariant
    /// Its length is a multiple of the size of `T`.
    buffer: DeviceBuffer,
    elements: PhantomData<T>,
}

impl<T: Pod> DeviceUVector<T> {
    /// A vector of `len` elements whose values are arbitrary, from `resource`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the bytes can not be counted; the resource's error
    /// if it has no memory.
    pub fn uninit<'a>(
        len: usize,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let alignment = align_of::<T>().max(CUDA_ALLOCATION_ALIGNMENT);
        Self::uninit_aligned(len, alignment, stream, resource)
    }

    /// A vector of `len` elements whose values are arbitrary, from `resource`, aligned as `alignment` asks for: a number of bytes, or
    /// another container.
    ///
    /// ```
    /// use rmm_containers::DeviceUVector;
    /// use rmm_core::{CudaStream, HasResource};
    /// use rmm_resources::CudaAsyncMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let (stream, resource) = (CudaStream::new()?, CudaAsyncMemoryResource::new()?);
    /// let first = DeviceUVector::<f32>::uninit_aligned(100, 64, &stream, &resource)?;
    /// assert_eq!(first.alignment(), 64);
    /// let like_it = DeviceUVector::<u8>::uninit_aligned(10, &first, &stream, first.memory_resource())?;
    /// assert_eq!(like_it.alignment(), 64);
    /// assert!(DeviceUVector::<f32>::uninit_aligned(100, 2, &stream, &resource).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit); [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) also if the alignment is no
    /// power of two or less than the type's; the resource's error if it can not align so.
    pub fn uninit_aligned<'a>(
        len: usize,
        alignment: impl HasAllocationAlignment,
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let bytes = Self::bytes(len)?;
        let alignment = allocation_alignment::<T>(&alignment)?;
        let buffer = DeviceBuffer::uninit_aligned(bytes, alignment, stream, resource)?;
        Ok(Self { buffer, elements: PhantomData })
    }

    /// A vector with a copy of `elements`, from the [current device's resource](current_device_resource). The copy is complete
    /// on return.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit), and whatever the copy reports.
    pub fn from_slice<'a>(elements: &[T], stream: impl Into<StreamRef<'a>>) -> Result<Self, Error> {
        Self::from_slice_in(elements, stream, &current_device_resource()?)
    }

    /// A vector with a copy of `elements`, from `resource`. The copy is complete on return.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit), and whatever the copy reports.
    pub fn from_slice_in<'a>(
        elements: &[T],
        stream: impl Into<StreamRef<'a>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let mut vector = Self::uninit(elements.len(), stream, resource)?;
        vector.copy_from_slice(elements)?;
        Ok(vector)
    }

    fn bytes(len: usize) -> Result<usize, Error> {
        const {
            assert!(
                size_of::<T>() > 0,
                "a vector of elements without size would not know how many it has"
            );
        };
        len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let message = format!("{len} elements of {} bytes", size_of::<T>());
            Error::invalid_argument("DeviceUVector", message)
        })
    }

    /// Number of elements.
    #[doc(alias = "size")]
    pub fn len(&self) -> usize {
        self.buffer.len() / size_of::<T>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements that there is room for.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity() / size_of::<T>()
    }

    /// Where the elements are; null if there is no room for any.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.buffer.as_ptr()
    }

    /// The alignment that the memory was asked for with, in bytes.
    pub fn alignment(&self) -> usize {
        self.buffer.alignment()
    }

    /// The resource that the memory came from.
    #[doc(alias = "memory_resource")]
    pub fn resource(&self) -> &AnyResource {
        self.buffer.resource()
    }

    /// The stream that the vector is on.
    pub fn stream(&self) -> &CudaStream {
        self.buffer.stream()
    }

    /// Overwrites the first elements; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are more than the vector's length; whatever the copy
    /// reports.
    pub fn copy_from_slice(&mut self, elements: &[T]) -> Result<(), Error> {
        self.buffer.copy_from_slice(bytemuck::cast_slice(elements))
    }

    /// Changes the number of elements. Those beyond the former length are arbitrary.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit); then nothing has changed.
    pub fn resize(&mut self, len: usize) -> Result<(), Error> {
        self.buffer.resize(Self::bytes(len)?)
    }

    /// The elements, copied to the host after all that was enqueued on `stream` and on the vector's own stream so far.
    ///
    /// # Errors
    /// Whatever the copy reports.
    pub fn to_vec<'a>(&self, stream: impl Into<StreamRef<'a>>) -> Result<Vec<T>, Error> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.buffer.copy_to_slice(bytemuck::cast_slice_mut(&mut elements), stream)?;
        Ok(elements)
    }

    /// The untyped buffer.
    #[doc(alias = "release")]
    pub fn into_buffer(self) -> DeviceBuffer {
        self.buffer
    }
}

impl<T> HasResource for DeviceUVector<T> {
    type Resource = AnyResource;

    fn memory_resource(&self) -> &AnyResource {
        self.buffer.resource()
    }
}

impl<T> HasAllocationAlignment for DeviceUVector<T> {
    fn allocation_alignment(&self) -> usize {
        self.buffer.alignment()
    }
}
