//! Views of elements in a container, for reading.

mod exclusive;
mod foreign;
mod on_stream;

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use bytemuck::Pod;
use rmm_core::{DevicePtr, DeviceResource, Error, PrefetchTarget, StreamRef};

use crate::DeviceUVector;
use crate::block::resource_for;
use crate::range_view::RangeView;
use crate::use_tracker::Access;

pub use exclusive::DeviceSliceMut;
pub use on_stream::OnStream;

/// Elements in device-accessible memory, borrowed from a container for reading: a `&[T]` that the
/// host cannot dereference.
///
/// Each call names a stream, which first waits for conflicting work that other streams do on these
/// elements. On the container's own stream there is nothing to wait for unless other streams wrote
/// the elements. The view is `Copy`.
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
/// let vector = DeviceUVector::from_slice(&[1, 2, 3, 4], &stream)?;
/// let (left, right) = vector.as_slice().split_at(1)?;
/// assert_eq!(right.to_vec_on(&other)?, [2, 3, 4]);
/// assert_eq!(left.len(), 1);
/// assert_eq!(vector.as_slice().slice(1..=2)?.to_vec_on(&stream)?, [2, 3]);
/// assert!(vector.as_slice().slice(3..5).unwrap_err().is_out_of_range());
/// # Ok(())
/// # }
/// ```
///
/// The container can be neither changed nor dropped while it is borrowed:
///
/// ```compile_fail,E0505
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// # let vector = rmm_containers::DeviceUVector::from_slice(&[1, 2], &stream)?;
/// let view = vector.as_slice();
/// drop(vector);
/// view.to_vec_on(&stream)?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuda::std::span")]
#[doc(alias = "device_span")]
pub struct DeviceSlice<'a, T> {
    range: RangeView<'a>,
    elements: PhantomData<&'a [T]>,
}

impl<T> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceSlice<'_, T> {}

impl<'a, T: Pod> DeviceSlice<'a, T> {
    const ORIGIN: &'static str = "DeviceSlice";

    /// # Invariant
    /// The caller ensures that the memory holds elements of `T`, one after another, aligned for
    /// them.
    pub(crate) fn from_range(range: RangeView<'a>) -> Self {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        Self { range, elements: PhantomData }
    }

    pub(crate) fn range(self) -> RangeView<'a> {
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

    /// The address of the first element. Work that the program enqueues with this address is not
    /// ordered by the container; [`use_on`](Self::use_on) gives an address that is.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.range.pointer()
    }

    /// The elements in `range`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if the range ends beyond the
    /// length, or before it begins.
    #[doc(alias = "subspan")]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        Ok(Self::from_range(self.range.elements::<T>(Self::ORIGIN, range)?))
    }

    /// The elements before index `mid`, and those from it on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `mid` exceeds the length.
    pub fn split_at(&self, mid: usize) -> Result<(Self, Self), Error> {
        Ok((self.slice(..mid)?, self.slice(mid..)?))
    }

    /// The same bytes as elements of another type.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the number of bytes
    /// is not a multiple of the size of `U`, or the address is not aligned for `U`.
    pub fn cast<U: Pod>(&self) -> Result<DeviceSlice<'a, U>, Error> {
        check_cast::<U>(Self::ORIGIN, self.range)?;
        Ok(DeviceSlice::from_range(self.range))
    }

    /// Copies the elements to the host, on `stream`; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if the lengths differ; whatever
    /// the driver reports.
    pub fn copy_to_slice_on<'s>(
        &self,
        target: &mut [T],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.range.check_len::<T>(Self::ORIGIN, target.len())?;
        self.range.read(bytemuck::cast_slice_mut(target), stream.into())
    }

    /// The elements, copied to the host on `stream`; complete on return.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn to_vec_on<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<Vec<T>, Error> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.copy_to_slice_on(&mut elements, stream)?;
        Ok(elements)
    }

    /// The element at `index`, copied to the host on `stream`; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `index` is not less than the
    /// length; whatever the driver reports.
    pub fn element_on<'s>(
        &self,
        index: usize,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<T, Error> {
        let mut element = [T::zeroed()];
        self.slice(index..=index)?.copy_to_slice_on(&mut element, stream)?;
        Ok(element[0])
    }

    /// Copies the elements to a new vector on `stream`, from the [current
    /// resource](rmm_resources::per_device_resource) of the stream's device. The copy runs in the
    /// order of the stream and is not complete on return: a slice of a
    /// [`PinnedVec`](crate::PinnedVec) is uploaded without waiting.
    ///
    /// ```
    /// use rmm_containers::PinnedVec;
    /// use rmm_core::CudaStream;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// let staging = PinnedVec::from_slice(&[1, 2, 3, 4])?;
    /// let vector = staging.device_slice().slice(1..)?.to_device(&stream)?; // only enqueues
    /// assert_eq!(vector.to_vec()?, [2, 3, 4]);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The resource's error; whatever the driver reports.
    #[doc(alias = "to_vector")]
    pub fn to_device<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<DeviceUVector<T>, Error> {
        let stream = stream.into();
        self.to_device_in(stream, &resource_for(stream)?)
    }

    /// Copies the elements to a new vector on `stream`, from `resource`. Otherwise as
    /// [`to_device`](Self::to_device).
    ///
    /// # Errors
    /// The errors of [`to_device`](Self::to_device).
    pub fn to_device_in<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<DeviceUVector<T>, Error> {
        let mut vector = DeviceUVector::uninit_in(self.len(), stream, resource)?;
        vector.copy_from(*self)?;
        Ok(vector)
    }

    /// Migrates the elements to `target` in the order of `stream`, if their memory is managed: see
    /// [`prefetch`](rmm_core::prefetch).
    ///
    /// # Errors
    /// The errors of [`prefetch`](rmm_core::prefetch).
    #[doc(alias = "rmm::prefetch")]
    pub fn prefetch<'s>(
        &self,
        target: PrefetchTarget,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.range.prefetch(target, stream.into())
    }

    /// Gives the address to work that reads the elements on `stream`. The stream waits for earlier
    /// conflicting work on the elements; a later call that writes, moves or frees them waits for
    /// all work enqueued on `stream` by then.
    ///
    /// Costs one event if `stream` is not the container's own.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn use_on<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSlice<'a, T>>, Error> {
        let stream = stream.into();
        self.range.use_on(Access::Read, stream)?;
        Ok(OnStream::new(*self, self.range, stream))
    }
}

impl<T> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>("DeviceSlice", self.range, f)
    }
}

/// Formats addresses and sizes, not the contents.
fn describe<T>(type_: &str, range: RangeView<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut fields = f.debug_struct(type_);
    if let Some(name) = range.name() {
        fields.field("name", &name);
    }
    fields
        .field("pointer", &range.pointer())
        .field("len", &(range.bytes() / size_of::<T>().max(1)))
        .field("element", &format_args!("{}", type_name::<T>()))
        .finish()
}

/// Refuses memory that cannot be viewed as elements of `U`.
fn check_cast<U>(origin: &'static str, range: RangeView<'_>) -> Result<(), Error> {
    const { assert!(size_of::<U>() > 0, "elements without size cannot be counted") };
    let (pointer, bytes, element) = (range.pointer(), range.bytes(), type_name::<U>());
    if bytes.is_multiple_of(size_of::<U>()) && pointer.0.is_multiple_of(align_of::<U>() as u64) {
        return Ok(());
    }
    let message = format!("{bytes} bytes at {pointer:?} are not elements of `{element}`");
    Err(Error::invalid_argument(origin, message))
}
