//! Elements of one type with addresses for a maximum.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::Pod;
use rmm_core::{DevicePtr, Error, StreamRef};
use rmm_resources::VirtualMemoryResource;

use super::ElasticBuffer;
use crate::{DeviceSlice, DeviceSliceMut};

/// Elements of a plain-data type at fixed addresses, of which ranges get memory and return it in
/// place: a typed [`ElasticBuffer`], with the same rules.
///
/// Indices and lengths are in elements; errors about a range name its bytes.
///
/// ```
/// use rmm_containers::ElasticUVector;
/// use rmm_core::CudaStream;
/// use rmm_resources::VirtualMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let (stream, pages) = (CudaStream::new()?, VirtualMemoryResource::new()?);
/// let mut vector = ElasticUVector::<f32>::reserve(1 << 30, &stream, &pages)?;
/// let page = vector.page_len(); // 524288 elements of 4 bytes
/// vector.commit(0..2 * page)?;
/// vector.slice_mut(page - 1..page + 1)?.fill_on(0.5, &stream)?;
/// assert_eq!(vector.slice(page..page + 1)?.to_vec_on(&stream)?, [0.5]);
/// vector.decommit_blocking(page..2 * page)?;
/// # Ok(())
/// # }
/// ```
pub struct ElasticUVector<T> {
    /// # Invariant
    /// The size of `T` divides its page size.
    buffer: ElasticBuffer,
    elements: PhantomData<T>,
}

impl<T: Pod> ElasticUVector<T> {
    /// Reserves addresses for `capacity` elements, see [`ElasticBuffer::reserve`].
    ///
    /// # Errors
    /// Those of [`ElasticBuffer::reserve`];
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the size of `T` does
    /// not divide the page size.
    pub fn reserve<'s>(
        capacity: usize,
        stream: impl Into<StreamRef<'s>>,
        resource: &VirtualMemoryResource,
    ) -> Result<Self, Error> {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        let bytes = capacity.checked_mul(size_of::<T>()).ok_or_else(|| {
            let message = format!("{capacity} elements are more than can be addressed");
            Error::invalid_argument("ElasticUVector", message)
        })?;
        let buffer = ElasticBuffer::reserve(bytes, stream, resource)?;
        let page = buffer.page_size();
        if !page.is_multiple_of(size_of::<T>()) {
            let (size, element) = (size_of::<T>(), type_name::<T>());
            let message =
                format!("pages of {page} bytes do not hold whole elements `{element}` of {size}");
            return Err(Error::invalid_argument("ElasticUVector", message));
        }
        Ok(Self { buffer, elements: PhantomData })
    }

    /// The range in bytes. What cannot be addressed ends beyond every capacity.
    fn bytes(range: &Range<usize>) -> Range<usize> {
        range.start.saturating_mul(size_of::<T>())..range.end.saturating_mul(size_of::<T>())
    }

    /// The address of the first element, which does not change.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.buffer.as_ptr()
    }

    /// Number of elements for which there are addresses.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity() / size_of::<T>()
    }

    /// Number of elements in a page: what is committed and decommitted is a multiple.
    pub fn page_len(&self) -> usize {
        self.buffer.page_size() / size_of::<T>()
    }

    /// The committed ranges of elements, in order. There is a gap between two of them.
    pub fn committed(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let size = size_of::<T>();
        self.buffer.committed().map(move |bytes| bytes.start / size..bytes.end / size)
    }

    /// Gives memory to a range of elements, see [`ElasticBuffer::commit`].
    ///
    /// # Errors
    /// Those of [`ElasticBuffer::commit`].
    pub fn commit(&mut self, range: Range<usize>) -> Result<(), Error> {
        self.buffer.commit(Self::bytes(&range))
    }

    /// Returns the memory of a range of elements if all work on it has completed, and the number of
    /// bytes; see [`ElasticBuffer::decommit`].
    ///
    /// # Errors
    /// Those of [`ElasticBuffer::decommit`].
    pub fn decommit(&mut self, range: Range<usize>) -> Result<usize, Error> {
        self.buffer.decommit(Self::bytes(&range))
    }

    /// Returns the memory of a range of elements after a wait for all work on it, and the number of
    /// bytes; see [`ElasticBuffer::decommit_blocking`].
    ///
    /// # Errors
    /// Those of [`ElasticBuffer::decommit_blocking`].
    pub fn decommit_blocking(&mut self, range: Range<usize>) -> Result<usize, Error> {
        self.buffer.decommit_blocking(Self::bytes(&range))
    }

    /// Forgets that graphs use the vector, see [`ElasticBuffer::end_graph_uses`].
    ///
    /// # Safety
    /// As for [`ElasticBuffer::end_graph_uses`].
    pub unsafe fn end_graph_uses(&mut self) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.buffer.end_graph_uses() };
    }

    /// The elements of a committed range.
    ///
    /// # Errors
    /// Those of [`ElasticBuffer::slice`].
    pub fn slice(&self, range: Range<usize>) -> Result<DeviceSlice<'_, T>, Error> {
        self.buffer.view(Self::bytes(&range)).map(DeviceSlice::from_range)
    }

    /// The elements of a committed range, for reading and writing.
    ///
    /// # Errors
    /// Those of [`ElasticBuffer::slice`].
    pub fn slice_mut(&mut self, range: Range<usize>) -> Result<DeviceSliceMut<'_, T>, Error> {
        self.buffer.view(Self::bytes(&range)).map(DeviceSliceMut::from_range)
    }

    /// The bytes.
    pub fn as_buffer(&self) -> &ElasticBuffer {
        &self.buffer
    }
}

impl<T> fmt::Debug for ElasticUVector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElasticUVector")
            .field("element", &format_args!("{}", type_name::<T>()))
            .field("buffer", &self.buffer)
            .finish()
    }
}
