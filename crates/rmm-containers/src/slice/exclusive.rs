//! Views of elements in a container, for reading and writing.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use bytemuck::Pod;
use rmm_core::{DevicePtr, Error, StreamRef};

use super::{DeviceSlice, OnStream, check_cast, describe};
use crate::range_view::RangeView;
use crate::use_tracker::Access;

/// Elements in device-accessible memory, borrowed from a container for reading and writing: a
/// `&mut [T]` that the host cannot dereference.
///
/// Split views let several streams write one container without waiting for each other:
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let (own, first, second) = (CudaStream::new()?, CudaStream::new()?, CudaStream::new()?);
/// let mut vector = DeviceUVector::from_slice(&[0; 6], &own)?;
/// let (mut left, mut right) = vector.as_slice_mut().split_at(2)?;
/// left.fill_on(1, &first)?;
/// right.fill_on(2, &second)?; // does not wait for `first`
/// assert_eq!(vector.to_vec()?, [1, 1, 2, 2, 2, 2]); // `own` waits for both
/// # Ok(())
/// # }
/// ```
///
/// Overlapping views do not compile, and neither does using the container beside a view:
///
/// ```compile_fail,E0499
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// # let mut vector = rmm_containers::DeviceUVector::from_slice(&[1, 2], &stream)?;
/// let mut one = vector.as_slice_mut();
/// let mut two = vector.as_slice_mut();
/// one.fill_on(1, &stream)?;
/// two.fill_on(2, &stream)?;
/// # Ok(())
/// # }
/// ```
pub struct DeviceSliceMut<'a, T> {
    range: RangeView<'a>,
    elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: Pod> DeviceSliceMut<'a, T> {
    const ORIGIN: &'static str = "DeviceSliceMut";

    /// # Invariant
    /// The caller ensures that the memory holds elements of `T`, one after another, aligned for
    /// them, and that no other view of them is used during `'a`.
    pub(crate) fn from_range(range: RangeView<'a>) -> Self {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        Self { range, elements: PhantomData }
    }

    pub(crate) fn into_range(self) -> RangeView<'a> {
        self.range
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.range.bytes() / size_of::<T>()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of the first element, see [`DeviceSlice::as_ptr`].
    pub fn as_ptr(&self) -> DevicePtr {
        self.range.pointer()
    }

    /// Borrows the elements for reading.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::from_range(self.range)
    }

    /// Borrows the same elements for a shorter time.
    pub fn reborrow(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::from_range(self.range)
    }

    /// The elements in `range`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if the range ends beyond the
    /// length, or before it begins.
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        Ok(Self::from_range(self.range.elements::<T>(Self::ORIGIN, range)?))
    }

    /// The elements before index `mid`, and those from it on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `mid` exceeds the length.
    pub fn split_at(self, mid: usize) -> Result<(Self, Self), Error> {
        let left = self.range.elements::<T>(Self::ORIGIN, ..mid)?;
        let right = self.range.elements::<T>(Self::ORIGIN, mid..)?;
        Ok((Self::from_range(left), Self::from_range(right)))
    }

    /// The same bytes as elements of another type.
    ///
    /// # Errors
    /// The errors of [`DeviceSlice::cast`].
    pub fn cast<U: Pod>(self) -> Result<DeviceSliceMut<'a, U>, Error> {
        check_cast::<U>(Self::ORIGIN, self.range)?;
        Ok(DeviceSliceMut::from_range(self.range))
    }

    /// Copies the elements from the host, on `stream`; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if the lengths differ; whatever
    /// the driver reports.
    pub fn copy_from_slice_on<'s>(
        &mut self,
        source: &[T],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.range.check_len::<T>(Self::ORIGIN, source.len())?;
        self.range.write(bytemuck::cast_slice(source), stream.into())
    }

    /// Copies the elements from static host memory, in the order of `stream`; not complete on
    /// return.
    ///
    /// A source with a shorter lifetime does not compile, since the stream may reach the copy after
    /// the source is gone:
    ///
    /// ```compile_fail,E0597
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let stream = rmm_core::CudaStream::new()?;
    /// # let mut vector = rmm_containers::DeviceUVector::from_slice(&[1, 2], &stream)?;
    /// let local = [3, 4];
    /// vector.as_slice_mut().copy_from_static_on(&local, &stream)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`copy_from_slice_on`](Self::copy_from_slice_on).
    pub fn copy_from_static_on<'s>(
        &mut self,
        source: &'static [T],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.range.check_len::<T>(Self::ORIGIN, source.len())?;
        self.range.write_static(bytemuck::cast_slice(source), stream.into())
    }

    /// Copies the elements from another container or from a [`HostVec`](crate::HostVec), in the
    /// order of `stream`, which first waits for conflicting work that other streams do on either.
    /// Not complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if the lengths differ; whatever
    /// the driver reports.
    pub fn copy_from_on<'s>(
        &mut self,
        source: DeviceSlice<'_, T>,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.range.check_len::<T>(Self::ORIGIN, source.len())?;
        self.range.copy_from(source.range(), stream.into())
    }

    /// Sets every element to `value`, bit by bit, in the order of `stream`. The value is passed to
    /// the driver as an argument, so it may be a temporary.
    ///
    /// One driver call for elements of up to 4 bytes, a few more for larger ones.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn fill_on<'s>(&mut self, value: T, stream: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        self.range.repeat(bytemuck::bytes_of(&value), stream.into())
    }

    /// Sets every byte to zero, in the order of `stream`.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn fill_zero_on<'s>(&mut self, stream: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        self.range.fill(0, stream.into())
    }

    /// Gives the address to work that reads and writes the elements on `stream`, see
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn use_on<'s>(
        &mut self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSliceMut<'_, T>>, Error> {
        self.reborrow().into_use_on(stream)
    }

    /// Gives the address to work that reads and writes the elements on `stream`, for the lifetime
    /// of the view. Otherwise as [`use_on`](Self::use_on).
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn into_use_on<'s>(
        self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, Self>, Error> {
        let (range, stream) = (self.range, stream.into());
        range.use_on(Access::Write, stream)?;
        Ok(OnStream::new(self, range, stream))
    }
}

impl<T> fmt::Debug for DeviceSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>("DeviceSliceMut", self.range, f)
    }
}
