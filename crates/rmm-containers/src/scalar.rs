//! One element in device memory.

use std::fmt;

use bytemuck::Pod;
use rmm_core::{AnyResource, CudaStream, DevicePtr, DeviceResource, Error, HasResource, StreamRef};
use rmm_resources::per_device_resource;

use crate::{DeviceSlice, DeviceSliceMut, DeviceUVector, OnStream};

/// One element of a plain type in device memory: a [`DeviceUVector`] of length 1, for results and
/// counters.
///
/// A value that is set travels with the call: nothing of the host has to outlive it, literals and
/// temporaries included.
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
/// assert_eq!(sum.value(&stream)?, 1.5);
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
    /// A scalar whose value is arbitrary, from `resource`.
    ///
    /// # Errors
    /// The resource's error if it has no memory.
    pub fn uninit<'s>(
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        Ok(Self { vector: DeviceUVector::uninit(1, stream, resource)? })
    }

    /// A scalar of this value, from the [resource of the stream's device](per_device_resource), in
    /// the order of `stream`.
    ///
    /// # Errors
    /// The resource's error if it has no memory; whatever the driver reports.
    pub fn new<'s>(value: T, stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        let stream = stream.into();
        Self::new_in(value, stream, &per_device_resource(stream.device()?)?)
    }

    /// A scalar of this value, from `resource`, in the order of `stream`.
    ///
    /// # Errors
    /// The resource's error if it has no memory; whatever the driver reports.
    pub fn new_in<'s>(
        value: T,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        let mut scalar = Self::uninit(stream, resource)?;
        scalar.set_value_async(value)?;
        Ok(scalar)
    }

    /// The value, copied to the host after all that was enqueued on `stream` and on the scalar's
    /// own stream so far; complete on return.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn value<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<T, Error> {
        self.vector.front_element(stream)
    }

    /// Sets the value, in the order of the scalar's stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn set_value_async(&mut self, value: T) -> Result<(), Error> {
        self.vector.set_element_async(0, value)
    }

    /// Sets every byte of the value to zero, in the order of the scalar's stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn set_value_to_zero_async(&mut self) -> Result<(), Error> {
        self.vector.set_element_to_zero_async(0)
    }

    /// Where the value is, see [`DeviceBuffer::as_ptr`](crate::DeviceBuffer::as_ptr).
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.vector.as_ptr()
    }

    /// The stream that the scalar is on.
    pub fn stream(&self) -> &CudaStream {
        self.vector.stream()
    }

    /// Moves the scalar to another stream, see
    /// [`DeviceBuffer::set_stream`](crate::DeviceBuffer::set_stream).
    ///
    /// # Errors
    /// If the driver refuses, and [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported)
    /// while either stream is being captured; then the scalar stays where it was.
    pub fn set_stream<'s>(&mut self, stream: impl Into<StreamRef<'s>>) -> Result<(), Error> {
        self.vector.set_stream(stream)
    }

    /// The value as a slice of length 1, to be read.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        self.vector.as_slice()
    }

    /// The value as a slice of length 1, to be changed.
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        self.vector.as_slice_mut()
    }

    /// Has the value read by work that the caller enqueues on `stream`, see
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn use_on<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSlice<'_, T>>, Error> {
        self.vector.use_on(stream)
    }

    /// Has the value read and written by work that the caller enqueues on `stream`, see
    /// [`DeviceSlice::use_on`].
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn use_on_mut<'s>(
        &mut self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSliceMut<'_, T>>, Error> {
        self.vector.use_on_mut(stream)
    }

    /// A scalar on `stream` of the same value, from the same resource, see
    /// [`DeviceBuffer::try_clone_on`](crate::DeviceBuffer::try_clone_on).
    ///
    /// # Errors
    /// The resource's error, or whatever the copy reports.
    pub fn try_clone_on<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        Ok(Self { vector: self.vector.try_clone_on(stream)? })
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

/// Addresses and sizes, never contents.
impl<T> fmt::Debug for DeviceScalar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceScalar").field(&self.vector).finish()
    }
}
