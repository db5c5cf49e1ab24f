//! The constructors of [`DeviceUVector`].

use std::any::type_name;
use std::marker::PhantomData;

use bytemuck::Pod;
use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, DevicePtr, DeviceResource, Error, StreamRef};

use super::DeviceUVector;
use crate::DeviceBuffer;
use crate::block::resource_for;
use crate::common::filled_constructors;

/// # Constructors
///
/// Those without suffix take the [current resource](rmm_resources::per_device_resource) of the
/// stream's device; those that end in `_in` take the resource that is named. Arguments come in the
/// order what, how many, stream, resource.
impl<T: Pod> DeviceUVector<T> {
    /// A vector of `len` uninitialized elements.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the size in bytes
    /// exceeds `isize::MAX`; the resource's error if it cannot allocate the memory.
    pub fn uninit<'s>(len: usize, stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        let stream = stream.into();
        Self::uninit_in(len, stream, &resource_for(stream)?)
    }

    /// A vector of `len` uninitialized elements, from `resource`.
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit).
    pub fn uninit_in<'s>(
        len: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let alignment = align_of::<T>().max(CUDA_ALLOCATION_ALIGNMENT);
        Self::uninit_aligned_in(len, alignment, stream, resource)
    }

    /// A vector of `len` uninitialized elements, the first of which is aligned to `alignment`
    /// bytes.
    ///
    /// ```
    /// use rmm_containers::DeviceUVector;
    /// use rmm_core::CudaStream;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// let vector = DeviceUVector::<f32>::uninit_aligned(100, 64, &stream)?;
    /// assert_eq!(vector.alignment(), 64);
    /// assert!(DeviceUVector::<f32>::uninit_aligned(100, 2, &stream).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit);
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) also if the alignment
    /// is not a power of two or less than that of `T`; the resource's error if it cannot honour the
    /// alignment.
    pub fn uninit_aligned<'s>(
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<Self, Error> {
        let stream = stream.into();
        Self::uninit_aligned_in(len, alignment, stream, &resource_for(stream)?)
    }

    /// A vector of `len` uninitialized elements from `resource`, the first of which is aligned to
    /// `alignment` bytes.
    ///
    /// # Errors
    /// The errors of [`uninit_aligned`](Self::uninit_aligned).
    pub fn uninit_aligned_in<'s>(
        len: usize,
        alignment: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let bytes = Self::bytes(len)?;
        if alignment < align_of::<T>() {
            let (own, element) = (align_of::<T>(), type_name::<T>());
            let message =
                format!("an alignment of {alignment} bytes, less than the {own} of `{element}`");
            return Err(Error::invalid_argument("DeviceUVector", message));
        }
        let buffer = DeviceBuffer::uninit_aligned_in(bytes, alignment, stream, resource)?;
        Ok(Self { buffer, elements: PhantomData })
    }

    filled_constructors! {
        "vector" of "elements", each "the one"; zero: "all bytes of which are zero"; T
    }

    /// A vector with a copy of `elements`. The copy is complete on return.
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit); whatever the copy reports.
    pub fn from_slice<'s>(elements: &[T], stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        let stream = stream.into();
        Self::from_slice_in(elements, stream, &resource_for(stream)?)
    }

    /// A vector with a copy of `elements`, from `resource`. The copy is complete on return.
    ///
    /// # Errors
    /// The errors of [`from_slice`](Self::from_slice).
    pub fn from_slice_in<'s>(
        elements: &[T],
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let mut vector = Self::uninit_in(elements.len(), stream, resource)?;
        vector.copy_from_slice(elements)?;
        Ok(vector)
    }

    /// Adopts the `len` elements at `pointer`, which another library allocated, and calls `free`
    /// after the last use instead of a free: see
    /// [`DeviceBuffer::from_foreign`](crate::DeviceBuffer::from_foreign).
    ///
    /// ```
    /// use rmm_containers::DeviceUVector;
    /// use rmm_core::CudaStream;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// // In its place: an array of another library, which is freed in the order of `stream`.
    /// let theirs = DeviceUVector::from_slice(&[1.0f32, 2.0], &stream)?;
    /// let (pointer, len) = (theirs.as_ptr(), theirs.len());
    /// // SAFETY: `theirs` keeps the elements, is not used elsewhere, and is freed in the order of
    /// // the stream that the vector is on.
    /// let vector =
    ///     unsafe { DeviceUVector::<f32>::from_foreign(pointer, len, &stream, |_| drop(theirs)) }?;
    /// assert_eq!(vector.to_vec()?, [1.0, 2.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`DeviceBuffer::from_foreign`](crate::DeviceBuffer::from_foreign), and
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the address is not
    /// aligned for `T`.
    ///
    /// # Safety
    /// As for [`DeviceBuffer::from_foreign`](crate::DeviceBuffer::from_foreign).
    pub unsafe fn from_foreign<'s>(
        pointer: DevicePtr,
        len: usize,
        stream: impl Into<StreamRef<'s>>,
        free: impl FnOnce(StreamRef<'_>) + Send + 'static,
    ) -> Result<Self, Error> {
        let bytes = Self::bytes(len)?;
        if !pointer.0.is_multiple_of(align_of::<T>() as u64) {
            let message = format!("{pointer:?} is not aligned for `{}`", type_name::<T>());
            return Err(Error::invalid_argument("DeviceUVector", message));
        }
        // SAFETY: the caller's contract is the same.
        let buffer = unsafe {
            DeviceBuffer::from_foreign_of(pointer, bytes, align_of::<T>(), stream.into(), free)
        }?;
        Ok(Self { buffer, elements: PhantomData })
    }
}
