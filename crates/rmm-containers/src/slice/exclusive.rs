//! Elements that are borrowed to be changed.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use bytemuck::Pod;
use rmm_core::{DevicePtr, Error, StreamRef};

use super::{DeviceSlice, OnStream, check_cast, describe};
use crate::memory::{Memory, check_lengths, resolve};
use crate::order::Access;

/// Elements in memory that devices can use, borrowed from a container to be changed: a `&mut [T]`
/// that the host cannot look into.
///
/// Split, it lets several streams write one container, without waiting for each other:
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let (own, first, second) = (CudaStream::new()?, CudaStream::new()?, CudaStream::new()?);
/// let mut vector = DeviceUVector::from_slice(&[0; 6], &own)?;
/// let (mut left, mut right) = vector.as_slice_mut().split_at(2)?;
/// left.fill(1, &first)?;
/// right.fill(2, &second)?; // does not wait for `first`
/// assert_eq!(vector.to_vec(&own)?, [1, 1, 2, 2, 2, 2]); // waits for both
/// # Ok(())
/// # }
/// ```
///
/// The halves cannot meet, nor can the container be used beside them:
///
/// ```compile_fail,E0499
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// # let mut vector = rmm_containers::DeviceUVector::from_slice(&[1, 2], &stream)?;
/// let mut one = vector.as_slice_mut();
/// let mut two = vector.as_slice_mut();
/// one.fill(1, &stream)?;
/// two.fill(2, &stream)?;
/// # Ok(())
/// # }
/// ```
pub struct DeviceSliceMut<'a, T> {
    memory: Memory<'a>,
    elements: PhantomData<&'a mut [T]>,
}

impl<'a, T: Pod> DeviceSliceMut<'a, T> {
    const ORIGIN: &'static str = "DeviceSliceMut";

    /// # Invariant
    /// To be kept by the caller: the memory holds elements of `T`, one after another, aligned for
    /// them, and nobody else uses it for as long as `'a`.
    pub(crate) fn from_memory(memory: Memory<'a>) -> Self {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        Self { memory, elements: PhantomData }
    }

    pub(crate) fn into_memory(self) -> Memory<'a> {
        self.memory
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.memory.bytes() / size_of::<T>()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the elements are, as [`DeviceSlice::as_ptr`].
    pub fn as_ptr(&self) -> DevicePtr {
        self.memory.pointer()
    }

    /// The elements, to be read.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::from_memory(self.memory)
    }

    /// The same elements, for a shorter time.
    pub fn reborrow(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::from_memory(self.memory)
    }

    /// The elements of a range.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if it does not lie within, or
    /// ends before it begins.
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let range = resolve(Self::ORIGIN, &range, self.len())?;
        let bytes = range.start * size_of::<T>()..range.end * size_of::<T>();
        Ok(Self::from_memory(self.memory.part(bytes)))
    }

    /// The elements before the one at `mid`, and the others.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are fewer than `mid`.
    pub fn split_at(self, mid: usize) -> Result<(Self, Self), Error> {
        let range = resolve(Self::ORIGIN, &(..mid), self.len())?;
        let (mid, end) = (range.end * size_of::<T>(), self.memory.bytes());
        let (left, right) = (self.memory.part(0..mid), self.memory.part(mid..end));
        Ok((Self::from_memory(left), Self::from_memory(right)))
    }

    /// The same bytes as elements of another type.
    ///
    /// # Errors
    /// As [`DeviceSlice::cast`].
    pub fn cast<U: Pod>(self) -> Result<DeviceSliceMut<'a, U>, Error> {
        check_cast::<U>(Self::ORIGIN, self.memory)?;
        Ok(DeviceSliceMut::from_memory(self.memory))
    }

    /// Copies the elements from the host; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `source` is not as long;
    /// whatever the driver reports.
    pub fn copy_from_slice<'s>(
        &mut self,
        source: &[T],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        check_lengths(Self::ORIGIN, self.len(), source.len())?;
        self.memory.write(bytemuck::cast_slice(source), stream.into())
    }

    /// Copies the elements from the host in the order of `stream`, which may be after the call: the
    /// source is there for good.
    ///
    /// What is not there for good cannot be named here, since the stream may come to it when it is
    /// gone:
    ///
    /// ```compile_fail,E0597
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let stream = rmm_core::CudaStream::new()?;
    /// # let mut vector = rmm_containers::DeviceUVector::from_slice(&[1, 2], &stream)?;
    /// let local = [3, 4];
    /// vector.as_slice_mut().copy_from_static(&local, &stream)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`copy_from_slice`](Self::copy_from_slice).
    pub fn copy_from_static<'s>(
        &mut self,
        source: &'static [T],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        check_lengths(Self::ORIGIN, self.len(), source.len())?;
        self.memory.write_static(bytemuck::cast_slice(source), stream.into())
    }

    /// Copies the elements from other memory that the device can use, another container's or a
    /// [`HostVec`](crate::HostVec)'s, in the order of `stream`, and in that of what was done to
    /// either on other streams.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `source` is not as long;
    /// whatever the driver reports.
    pub fn copy_from<'s>(
        &mut self,
        source: DeviceSlice<'_, T>,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        check_lengths(Self::ORIGIN, self.len(), source.len())?;
        self.memory.copy_from(source.memory(), stream.into())
    }

    /// Sets every element to `value`, bit by bit, in the order of `stream`. The value travels with
    /// the call.
    ///
    /// One call of the driver for elements of up to 4 bytes, a few more for larger ones.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn fill<'s>(&mut self, value: T, stream: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        self.memory.repeat(bytemuck::bytes_of(&value), stream.into())
    }

    /// Sets every byte to zero, in the order of `stream`.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn fill_zero<'s>(&mut self, stream: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        self.memory.fill(0, stream.into())
    }

    /// Has the elements read and written by work that the caller enqueues on `stream`, as
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn use_on<'s>(
        &mut self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSliceMut<'_, T>>, Error> {
        self.reborrow().into_use_on(stream)
    }

    /// As [`use_on`](Self::use_on), for as long as the elements are borrowed.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn into_use_on<'s>(
        self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, Self>, Error> {
        let (memory, stream) = (self.memory, stream.into());
        memory.use_on(Access::Write, stream)?;
        Ok(OnStream::new(self, memory, stream))
    }
}

impl<T> fmt::Debug for DeviceSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>("DeviceSliceMut", self.memory, f)
    }
}
