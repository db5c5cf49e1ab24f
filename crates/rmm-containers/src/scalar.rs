//! One element in device memory.

use std::fmt;

use bytemuck::Pod;
use rmm_core::{AnyResource, DevicePtr, DeviceResource, Error, HasResource, StreamRef};

use crate::block::resource_for;
use crate::common::{passed_on, uses_on_streams};
use crate::{DeviceSlice, DeviceSliceMut, DeviceUVector};

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
/// # let _machine = rmm_sim::enter();
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

    /// A scalar of this value, set in the order of `stream`, from `resource`.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
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

    /// A scalar whose value is uninitialized, from `resource`.
    ///
    /// # Errors
    /// The errors of [`uninit`](Self::uninit).
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
    /// The errors of [`new`](Self::new).
    pub fn zeroed<'s>(stream: impl Into<StreamRef<'s>>) -> Result<Self, Error> {
        Self::new(T::zeroed(), stream)
    }

    /// A scalar all bytes of which are zero, set in the order of `stream`, from `resource`.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn zeroed_in<'s>(
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<Self, Error> {
        Self::new_in(T::zeroed(), stream, resource)
    }

    /// # Invariant
    /// The vector has one element.
    fn over(vector: DeviceUVector<T>) -> Self {
        Self { vector }
    }

    passed_on!("scalar", vector);

    /// The value, copied to the host on the scalar's stream; complete on return.
    ///
    /// # Errors
    /// Whatever the copy reports.
    pub fn value(&self) -> Result<T, Error> {
        self.vector.front_element()
    }

    /// The value, copied to the host on `stream`: after all work enqueued on it, and on the
    /// scalar's stream, so far. Complete on return.
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

    /// Borrows the value, as a slice of length 1, for reading.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        self.vector.as_slice()
    }

    /// Borrows the value, as a slice of length 1, for reading and writing.
    pub fn as_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        self.vector.as_slice_mut()
    }

    uses_on_streams!("value", T);

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
