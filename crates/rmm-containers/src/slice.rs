//! Elements that are borrowed from a container.

mod exclusive;
mod on_stream;

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use bytemuck::Pod;
use rmm_core::{DevicePtr, DeviceResource, Error, PrefetchTarget, StreamRef};

use crate::DeviceUVector;
use crate::memory::{Memory, check_lengths, resolve};
use crate::order::Access;

pub use exclusive::DeviceSliceMut;
pub use on_stream::OnStream;

/// Elements in memory that devices can use, borrowed from a container to be read: a `&[T]` that the
/// host cannot look into.
///
/// Every call names the stream that it is for, and is ordered behind what was done to these
/// elements on others; where that is the container's own stream, nothing has to be ordered. Copies
/// of the value are as good as the original.
///
/// ```
/// use rmm_containers::DeviceUVector;
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
/// let vector = DeviceUVector::from_slice(&[1, 2, 3, 4], &stream)?;
/// let (left, right) = vector.as_slice().split_at(1)?;
/// assert_eq!(right.to_vec(&other)?, [2, 3, 4]);
/// assert_eq!(left.len(), 1);
/// assert_eq!(vector.as_slice().slice(1..=2)?.to_vec(&stream)?, [2, 3]);
/// assert!(vector.as_slice().slice(3..5).unwrap_err().is_out_of_range());
/// # Ok(())
/// # }
/// ```
///
/// It borrows the container, which can be neither changed nor dropped meanwhile:
///
/// ```compile_fail,E0505
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// # let vector = rmm_containers::DeviceUVector::from_slice(&[1, 2], &stream)?;
/// let view = vector.as_slice();
/// drop(vector);
/// view.to_vec(&stream)?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuda::std::span")]
#[doc(alias = "device_span")]
pub struct DeviceSlice<'a, T> {
    memory: Memory<'a>,
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
    /// To be kept by the caller: the memory holds elements of `T`, one after another, aligned for
    /// them.
    pub(crate) fn from_memory(memory: Memory<'a>) -> Self {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        Self { memory, elements: PhantomData }
    }

    pub(crate) fn memory(self) -> Memory<'a> {
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

    /// Where the elements are. Work that is enqueued by way of this address is known to nobody:
    /// [`use_on`](Self::use_on) gives one for that.
    #[doc(alias = "data")]
    pub fn as_ptr(&self) -> DevicePtr {
        self.memory.pointer()
    }

    /// The elements of a range.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if it does not lie within, or
    /// ends before it begins.
    #[doc(alias = "subspan")]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let range = resolve(Self::ORIGIN, &range, self.len())?;
        let bytes = range.start * size_of::<T>()..range.end * size_of::<T>();
        Ok(Self::from_memory(self.memory.part(bytes)))
    }

    /// The elements before the one at `mid`, and the others.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are fewer than `mid`.
    pub fn split_at(&self, mid: usize) -> Result<(Self, Self), Error> {
        Ok((self.slice(..mid)?, self.slice(mid..)?))
    }

    /// The same bytes as elements of another type.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if they do not make up
    /// a whole number of elements, or the address is not aligned for them.
    pub fn cast<U: Pod>(&self) -> Result<DeviceSlice<'a, U>, Error> {
        check_cast::<U>(Self::ORIGIN, self.memory)?;
        Ok(DeviceSlice::from_memory(self.memory))
    }

    /// Copies the elements to the host; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `target` is not as long;
    /// whatever the driver reports.
    pub fn copy_to_slice<'s>(
        &self,
        target: &mut [T],
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        check_lengths(Self::ORIGIN, target.len(), self.len())?;
        self.memory.read(bytemuck::cast_slice_mut(target), stream.into())
    }

    /// The elements, copied to the host; complete on return.
    ///
    /// # Errors
    /// Whatever the driver reports.
    pub fn to_vec<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<Vec<T>, Error> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.copy_to_slice(&mut elements, stream)?;
        Ok(elements)
    }

    /// The element at `index`, copied to the host; complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there is none; whatever the
    /// driver reports.
    pub fn element<'s>(&self, index: usize, stream: impl Into<StreamRef<'s>>) -> Result<T, Error> {
        let mut element = [T::zeroed()];
        self.slice(index..=index)?.copy_to_slice(&mut element, stream)?;
        Ok(element[0])
    }

    /// A vector on `stream` with a copy of the elements, from `resource`. Not complete on return:
    /// it is in the stream's order.
    ///
    /// # Errors
    /// The resource's error, or whatever the driver reports.
    pub fn to_vector<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        resource: &impl DeviceResource,
    ) -> Result<DeviceUVector<T>, Error> {
        let mut vector = DeviceUVector::uninit(self.len(), stream, resource)?;
        vector.copy_from(*self)?;
        Ok(vector)
    }

    /// Has the elements moved to where they are to be used, in the order of `stream`, if their
    /// memory is managed: see [`prefetch`](rmm_core::prefetch).
    ///
    /// # Errors
    /// As [`prefetch`](rmm_core::prefetch).
    #[doc(alias = "rmm::prefetch")]
    pub fn prefetch<'s>(
        &self,
        target: PrefetchTarget,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.memory.prefetch(target, stream.into())
    }

    /// Has the elements read by work that the caller enqueues on `stream`: that is ordered behind
    /// what was done to them so far, and whoever changes or frees them later waits for it.
    ///
    /// Costs an event if it is not the container's own stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn use_on<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<OnStream<'s, DeviceSlice<'a, T>>, Error> {
        let stream = stream.into();
        self.memory.use_on(Access::Read, stream)?;
        Ok(OnStream::new(*self, self.memory, stream))
    }
}

impl<T> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::<T>("DeviceSlice", self.memory, f)
    }
}

/// Addresses and sizes, never contents.
fn describe<T>(name: &str, memory: Memory<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct(name)
        .field("pointer", &memory.pointer())
        .field("len", &(memory.bytes() / size_of::<T>().max(1)))
        .field("element", &format_args!("{}", type_name::<T>()))
        .finish()
}

/// Refuses memory that cannot be seen as elements of `U`.
fn check_cast<U>(origin: &'static str, memory: Memory<'_>) -> Result<(), Error> {
    const { assert!(size_of::<U>() > 0, "elements without size cannot be counted") };
    let (pointer, bytes, name) = (memory.pointer(), memory.bytes(), type_name::<U>());
    if bytes.is_multiple_of(size_of::<U>()) && pointer.0.is_multiple_of(align_of::<U>() as u64) {
        return Ok(());
    }
    let message = format!("{bytes} bytes at {pointer:?} are no `{name}`s");
    Err(Error::invalid_argument(origin, message))
}
