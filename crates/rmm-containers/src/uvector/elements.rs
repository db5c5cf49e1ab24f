//! Reading and writing the elements of a [`DeviceUVector`].

use bytemuck::Pod;
use rmm_core::{DevicePtr, Error, StreamRef};

use super::DeviceUVector;
use crate::common::{copies_to_host, uses_on_streams};
use crate::{DeviceSlice, DeviceSliceMut};

impl<T: Pod> DeviceUVector<T> {
    const ORIGIN: &'static str = "DeviceUVector";

    /// Borrows the elements for reading.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::from_range(self.buffer.as_slice().range())
    }

    /// Borrows the elements for reading and writing.
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::from_range(self.buffer.as_slice_mut().into_range())
    }

    uses_on_streams!("elements", T);

    /// The address of the element at `index`, for the work that may use [`as_ptr`](Self::as_ptr).
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `index` is not less than the
    /// length.
    pub fn element_ptr(&self, index: usize) -> Result<DevicePtr, Error> {
        Ok(self.as_slice().slice(index..=index)?.as_ptr())
    }

    /// The element at `index`, copied to the host on the vector's stream; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `index` is not less than the
    /// length; whatever the copy reports.
    pub fn element(&self, index: usize) -> Result<T, Error> {
        self.element_on(index, self.stream())
    }

    /// The element at `index`, copied to the host on `stream`: after all work enqueued on it, and
    /// on the vector's stream, so far. Complete on return.
    ///
    /// # Errors
    /// The errors of [`element`](Self::element).
    pub fn element_on<'s>(
        &self,
        index: usize,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<T, Error> {
        self.as_slice().element_on(index, stream)
    }

    /// The first element, see [`element`](Self::element).
    ///
    /// # Errors
    /// The errors of [`element`](Self::element).
    pub fn front_element(&self) -> Result<T, Error> {
        self.element(0)
    }

    /// The first element, see [`element_on`](Self::element_on).
    ///
    /// # Errors
    /// The errors of [`element`](Self::element).
    pub fn front_element_on<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<T, Error> {
        self.element_on(0, stream)
    }

    /// The last element, see [`element`](Self::element).
    ///
    /// # Errors
    /// The errors of [`element`](Self::element).
    pub fn back_element(&self) -> Result<T, Error> {
        self.back_element_on(self.stream())
    }

    /// The last element, see [`element_on`](Self::element_on).
    ///
    /// # Errors
    /// The errors of [`element`](Self::element).
    pub fn back_element_on<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<T, Error> {
        let empty = || Error::out_of_range(Self::ORIGIN, "the last element of an empty vector");
        self.element_on(self.len().checked_sub(1).ok_or_else(empty)?, stream)
    }

    /// Sets the element at `index`, in the order of the vector's stream; not complete on return.
    /// The value is passed to the driver as an argument, bit by bit, so it may be a temporary.
    ///
    /// ```
    /// use rmm_containers::DeviceUVector;
    /// use rmm_core::CudaStream;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// let mut vector = DeviceUVector::from_slice(&[1.0f64, 2.0], &stream)?;
    /// vector.set_element_async(1, -0.0)?;
    /// assert!(vector.element(1)?.is_sign_negative());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `index` is not less than the
    /// length; whatever the driver reports.
    pub fn set_element_async(&mut self, index: usize, value: T) -> Result<(), Error> {
        self.on_own_stream(index, |element, stream| element.fill_on(value, stream))
    }

    /// Sets the element at `index`; complete on return.
    ///
    /// # Errors
    /// The errors of [`set_element_async`](Self::set_element_async); whatever the wait reports.
    pub fn set_element(&mut self, index: usize, value: T) -> Result<(), Error> {
        self.on_own_stream(index, |element, stream| element.copy_from_slice_on(&[value], stream))
    }

    /// Sets every byte of the element at `index` to zero, in the order of the vector's stream.
    ///
    /// # Errors
    /// The errors of [`set_element_async`](Self::set_element_async).
    pub fn set_element_to_zero_async(&mut self, index: usize) -> Result<(), Error> {
        self.on_own_stream(index, |element, stream| element.fill_zero_on(stream))
    }

    fn on_own_stream(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut DeviceSliceMut<'_, T>, StreamRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let stream = self.stream().clone();
        work(&mut self.as_slice_mut().slice(index..=index)?, (&stream).into())
    }

    /// Sets every element to `value`, in the order of the vector's stream, see
    /// [`DeviceSliceMut::fill_on`].
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn fill(&mut self, value: T) -> Result<(), Error> {
        let stream = self.stream().clone();
        self.as_slice_mut().fill_on(value, &stream)
    }

    /// Overwrites the first elements with `elements`, on the vector's stream; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `elements` is longer than the
    /// vector; whatever the copy reports.
    pub fn copy_from_slice(&mut self, elements: &[T]) -> Result<(), Error> {
        let target = self.buffer.range().elements::<T>(Self::ORIGIN, ..elements.len())?;
        target.write(bytemuck::cast_slice(elements), self.stream().into())
    }

    /// Overwrites the first elements with those of another container, in the order of the vector's
    /// stream.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `source` is longer than the
    /// vector; whatever the copy reports.
    pub fn copy_from(&mut self, source: DeviceSlice<'_, T>) -> Result<(), Error> {
        let stream = self.stream().clone();
        self.as_slice_mut().slice(..source.len())?.copy_from_on(source, &stream)
    }

    copies_to_host!("vector", "elements", T);

    /// Copies the first elements to the host, on `stream`: after all work enqueued on it, and on
    /// the vector's stream, so far. Complete on return.
    ///
    /// # Errors
    /// The errors of [`copy_to_slice`](Self::copy_to_slice).
    pub fn copy_to_slice_on<'s>(
        &self,
        target: &mut [T],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.as_slice().slice(..target.len())?.copy_to_slice_on(target, stream)
    }
}
