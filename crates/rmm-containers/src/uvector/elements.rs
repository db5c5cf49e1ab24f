//! What is in a vector.

use bytemuck::Pod;
use rmm_core::{DevicePtr, Error, StreamRef};

use super::DeviceUVector;
use crate::memory::resolve;
use crate::{DeviceSlice, DeviceSliceMut, OnStream};

impl<T: Pod> DeviceUVector<T> {
    const ORIGIN: &'static str = "DeviceUVector";

    /// The elements, to be read.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::from_memory(self.buffer.as_slice().memory())
    }

    /// The elements, to be changed.
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::from_memory(self.buffer.as_slice_mut().into_memory())
    }

    /// Has the elements read by work that the caller enqueues on `stream`, see
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn use_on<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSlice<'_, T>>, Error> {
        self.as_slice().use_on(stream)
    }

    /// Has the elements read and written by work that the caller enqueues on `stream`, see
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn use_on_mut<'s>(
        &mut self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSliceMut<'_, T>>, Error> {
        self.as_slice_mut().into_use_on(stream)
    }

    /// Where the element at `index` is, see [`as_ptr`](Self::as_ptr).
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there is none.
    pub fn element_ptr(&self, index: usize) -> Result<DevicePtr, Error> {
        Ok(self.as_slice().slice(index..=index)?.as_ptr())
    }

    /// The element at `index`, copied to the host after all that was enqueued on `stream` and on
    /// the vector's own stream so far; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there is none; whatever the
    /// driver reports.
    pub fn element<'s>(&self, index: usize, stream: impl Into<StreamRef<'s>>) -> Result<T, Error> {
        self.as_slice().element(index, stream)
    }

    /// The first element, as [`element`](Self::element).
    ///
    /// # Errors
    /// As [`element`](Self::element).
    pub fn front_element<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<T, Error> {
        self.element(0, stream)
    }

    /// The last element, as [`element`](Self::element).
    ///
    /// # Errors
    /// As [`element`](Self::element).
    pub fn back_element<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<T, Error> {
        let none = || Error::out_of_range(Self::ORIGIN, "the last element of none");
        self.element(self.len().checked_sub(1).ok_or_else(none)?, stream)
    }

    /// Sets the element at `index`, in the order of the vector's stream: not complete on return.
    /// The value travels with the call, bit by bit, so nothing has to outlive it.
    ///
    /// ```
    /// use rmm_containers::DeviceUVector;
    /// use rmm_core::CudaStream;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let stream = CudaStream::new()?;
    /// let mut vector = DeviceUVector::from_slice(&[1.0f64, 2.0], &stream)?;
    /// vector.set_element_async(1, -0.0)?;
    /// assert!(vector.element(1, &stream)?.is_sign_negative());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there is none; whatever the
    /// driver reports.
    pub fn set_element_async(&mut self, index: usize, value: T) -> Result<(), Error> {
        self.on_own(index, |element, stream| element.fill(value, stream))
    }

    /// Sets the element at `index`; complete on return.
    ///
    /// # Errors
    /// As [`set_element_async`](Self::set_element_async), and if the wait reports a failure.
    pub fn set_element(&mut self, index: usize, value: T) -> Result<(), Error> {
        self.on_own(index, |element, stream| element.copy_from_slice(&[value], stream))
    }

    /// Sets every byte of the element at `index` to zero, in the order of the vector's stream.
    ///
    /// # Errors
    /// As [`set_element_async`](Self::set_element_async).
    pub fn set_element_to_zero_async(&mut self, index: usize) -> Result<(), Error> {
        self.on_own(index, |element, stream| element.fill_zero(stream))
    }

    fn on_own(
        &mut self,
        index: usize,
        work: impl FnOnce(&mut DeviceSliceMut<'_, T>, StreamRef<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let stream = self.stream().clone();
        work(&mut self.as_slice_mut().slice(index..=index)?, stream.as_stream_ref())
    }

    /// Sets every element to `value`, in the order of the vector's stream, see
    /// [`DeviceSliceMut::fill`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn fill(&mut self, value: T) -> Result<(), Error> {
        let stream = self.stream().clone();
        self.as_slice_mut().fill(value, &stream)
    }

    /// Overwrites the first elements, on the vector's own stream; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are more than the
    /// vector's length; whatever the copy reports.
    pub fn copy_from_slice(&mut self, elements: &[T]) -> Result<(), Error> {
        resolve(Self::ORIGIN, &(..elements.len()), self.len())?;
        self.buffer.copy_from_slice(bytemuck::cast_slice(elements))
    }

    /// Overwrites the first elements with those of another container, in the order of the vector's
    /// own stream.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are more than the
    /// vector's length; whatever the copy reports.
    pub fn copy_from(&mut self, source: DeviceSlice<'_, T>) -> Result<(), Error> {
        let stream = self.stream().clone();
        self.as_slice_mut().slice(..source.len())?.copy_from(source, &stream)
    }

    /// Copies the first elements to the host, after all that was enqueued on `stream` and on the
    /// vector's own stream so far; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `target` is longer than the
    /// vector; whatever the copy reports.
    pub fn copy_to_slice<'s>(
        &self,
        target: &mut [T],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.as_slice().slice(..target.len())?.copy_to_slice(target, stream)
    }

    /// The elements, copied to the host after all that was enqueued on `stream` and on the vector's
    /// own stream so far.
    ///
    /// # Errors
    /// Whatever the copy reports.
    pub fn to_vec<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<Vec<T>, Error> {
        self.as_slice().to_vec(stream)
    }
}
