//! One element in device memory.

use std::fmt;

use bytemuck::Pod;
use rmm_core::{
    AnyResource, CudaStream, Device, DevicePtr, DeviceResource, Error, HasResource, StreamRef,
};

use crate::block::resource_for;
use crate::{DeviceSlice, DeviceSliceMut, DeviceUVector, OnStream};

/// One element of a plain-data type in device memory: a [`DeviceUVector`] of length 1, for results
/// and counters.
///
/// A value that is set is passed to the driver as an argument, so it may be a literal or a
/// temporary.
///
/// ```
/// use rmm_containers::DeviceScalar;
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let stream = CudaStream::new()?;
/// let mut sum = DeviceScalar::new(0.0f64, &stream)?;
/// sum.set_value_async(1.5)?;
/// assert_eq!(sum.value()?, 1.5);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::device_scalar")]
pub struct DeviceScalar<T> {
    /// # Invariant
    /// It has one element.
    vector: DeviceUVector<T>,
}

impl<T: Pod> DeviceScalar<T> {
    /// A scalar of this value, set in the order of `stream`, from the [current
    /// resource](rmm_resources::per_device_resource) of the stream's device.
    ///
    /// # Errors
    /// The resource's error if it cannot allocate the memory; whatever the driver reports.
    pub fn new<'s>(value: T, stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        let stream = stream.into();
        Self::new_in(value, stream, &resource_for(stream)?)
    }

    /// As [`new`](Self::new), from `resource`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn new_in<'s>(
        value: T,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let mut scalar = Self::uninit_in(stream, resource)?;
        scalar.set_value_async(value)?;
        Ok(scalar)
    }

    /// A scalar whose value is uninitialized, from the [current
    /// resource](rmm_resources::per_device_resource) of the stream's device.
    ///
    /// # Errors
    /// The resource's error if it cannot allocate the memory.
    pub fn uninit<'s>(stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        Ok(Self { vector: DeviceUVector::uninit(1, stream)? })
    }

    /// As [`uninit`](Self::uninit), from `resource`.
    ///
    /// # Errors
    /// As [`uninit`](Self::uninit).
    pub fn uninit_in<'s>(
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        Ok(Self { vector: DeviceUVector::uninit_in(1, stream, resource)? })
    }

    /// A scalar all bytes of which are zero, set in the order of `stream`, from the [current
    /// resource](rmm_resources::per_device_resource) of the stream's device.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn zeroed<'s>(stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        Self::new(T::zeroed(), stream)
    }

    /// As [`zeroed`](Self::zeroed), from `resource`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn zeroed_in<'s>(
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        Self::new_in(T::zeroed(), stream, resource)
    }

    /// Names the scalar, see [`DeviceBuffer::with_name`](crate::DeviceBuffer::with_name).
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.vector = self.vector.with_name(name);
        self
    }

    /// The name, if the scalar [has one](Self::with_name).
    pub fn name(&self) -> Option<&str> {
        self.vector.name()
    }

    /// The value, copied to the host on the scalar's stream; complete on return.
    ///
    /// # Errors
    /// Whatever the copy reports.
    pub fn value(&self) -> Result<T, Error> {
        self.vector.front_element()
    }

    /// As [`value`](Self::value), on `stream`: after all work enqueued on it, and on the scalar's
    /// stream, so far.
    ///
    /// # Errors
    /// Whatever the copy reports.
    pub fn value_on<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<T, Error> {
        self.vector.front_element_on(stream)
    }

    /// Sets the value, in the order of the scalar's stream.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn set_value_async(&mut self, value: T) -> Result<(), Error> {
        self.vector.set_element_async(0, value)
    }

    /// Sets every byte of the value to zero, in the order of the scalar's stream.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn set_value_to_zero_async(&mut self) -> Result<(), Error> {
        self.vector.set_element_to_zero_async(0)
    }

    /// The address of the value, see [`DeviceBuffer::as_ptr`](crate::DeviceBuffer::as_ptr).
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.vector.as_ptr()
    }

    /// The resource that the memory came from.
    #[doc(alias = "memory_resource")]
    pub fn resource(&self) -> &AnyResource {
        self.vector.resource()
    }

    /// The stream that the scalar belongs to.
    pub fn stream(&self) -> &CudaStream {
        self.vector.stream()
    }

    /// The device that the scalar was made on.
    ///
    /// # Errors
    /// As [`DeviceBuffer::device`](crate::DeviceBuffer::device).
    pub fn device(&self) -> Result<Device, Error> {
        self.vector.device()
    }

    /// Moves the scalar to another stream, see
    /// [`DeviceBuffer::set_stream`](crate::DeviceBuffer::set_stream).
    ///
    /// # Errors
    /// As [`DeviceBuffer::set_stream`](crate::DeviceBuffer::set_stream).
    pub fn set_stream<'s>(&mut self, stream: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        self.vector.set_stream(stream)
    }

    /// Makes the scalar's stream wait for all work that other streams do on the scalar, see
    /// [`DeviceBuffer::wait_for_other_streams`](crate::DeviceBuffer::wait_for_other_streams).
    ///
    /// # Errors
    /// As [`DeviceBuffer::wait_for_other_streams`](crate::DeviceBuffer::wait_for_other_streams).
    pub fn wait_for_other_streams(&mut self) -> Result<(), Error> {
        self.vector.wait_for_other_streams()
    }

    /// Borrows the value, as a slice of length 1, for reading.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        self.vector.as_slice()
    }

    /// Borrows the value, as a slice of length 1, for reading and writing.
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        self.vector.as_slice_mut()
    }

    /// Gives the address to work that reads the value on `stream`, see [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn use_on<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSlice<'_, T>>, Error> {
        self.vector.use_on(stream)
    }

    /// Gives the address to work that reads and writes the value on `stream`, see
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn use_on_mut<'s>(
        &mut self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSliceMut<'_, T>>, Error> {
        self.vector.use_on_mut(stream)
    }

    /// Copies the value to a new scalar on the same stream, from the same resource.
    ///
    /// # Errors
    /// The resource's error; whatever the copy reports.
    pub fn try_clone(&self) -> Result<Self, Error> {
        Ok(Self { vector: self.vector.try_clone()? })
    }

    /// As [`try_clone`](Self::try_clone), on another stream, see
    /// [`DeviceBuffer::try_clone_on`](crate::DeviceBuffer::try_clone_on).
    ///
    /// # Errors
    /// As [`try_clone`](Self::try_clone).
    pub fn try_clone_on<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        Ok(Self { vector: self.vector.try_clone_on(stream)? })
    }

    /// As [`try_clone_on`](Self::try_clone_on), from `resource`.
    ///
    /// # Errors
    /// As [`try_clone`](Self::try_clone).
    pub fn try_clone_in<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        Ok(Self { vector: self.vector.try_clone_in(stream, resource)? })
    }

    /// The vector of length 1.
    #[doc(alias = "release")]
    pub fn into_vector(self) -> DeviceUVector<T> {
        self.vector
    }
}

impl<T> HasResource for DeviceScalar<T> {
    type Resource = AnyResource;

    fn memory_resource(&self) -> &AnyResource {
        self.vector.memory_resource()
    }
}

/// Addresses and sizes, not the contents.
impl<T> fmt::Debug for DeviceScalar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceScalar").field(&self.vector).finish()
    }
}
