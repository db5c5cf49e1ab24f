//! Elements in memory that the host and devices share.

use std::alloc::Layout;
use std::any::type_name;
use std::fmt;
use std::mem::ManuallyDrop;

use allocator_api2::vec::Vec as AllocatedVec;
use bytemuck::Pod;
use rmm_core::{
    Context, Device, DeviceAccessible, DevicePtr, Error, HasProperty, HasResource, HostAccessible,
    Introspect as _, MemoryKind, StreamRef, SyncResource,
};
use rmm_resources::{ManagedMemoryResource, PinnedHostMemoryResource};

use crate::host_allocator::HostAllocator;
use crate::memory::Memory;
use crate::order::{Access, Order};
use crate::{DeviceSlice, DeviceSliceMut};

/// Elements in pinned memory of the host: what copies to and from a device are fastest with.
#[doc(alias = "pinned_host_vector")]
pub type PinnedVec<T> = HostVec<T, PinnedHostMemoryResource>;

/// Elements in managed memory, which moves between the host and the devices as they touch it.
#[doc(alias = "managed_vector")]
pub type ManagedVec<T> = HostVec<T, ManagedMemoryResource>;

/// Elements of a plain type in memory that the host and devices share, in a vector of the host's.
///
/// Devices use it by [`device_slice`](Self::device_slice) and
/// [`device_slice_mut`](Self::device_slice_mut), as any other memory: copies only enqueue, and the
/// vector remembers what it has to wait for. The host uses it as a slice, by a call that waits
/// first: for what writes it if the slice is to be read, for all that uses it if it is to be
/// changed. So does dropping it; one that is never dropped stays allocated.
///
/// The resource may be borrowed as long as only the host uses the elements. For device slices it
/// must be owned (`R: 'static`): a handle to a pool, say. A vector that is forgotten waits for
/// nothing, so a borrowed resource could end while devices still use its memory.
///
/// ```
/// use rmm_containers::{DeviceUVector, PinnedVec};
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let stream = CudaStream::new()?;
/// let mut pinned = PinnedVec::from_slice(&[1, 2, 3])?;
/// let mut vector = DeviceUVector::from_slice(&[0; 3], &stream)?;
/// vector.copy_from(pinned.device_slice())?; // only enqueues
/// assert_eq!(pinned.as_slice()?, [1, 2, 3]); // waits for nothing: nobody writes
/// pinned.as_mut_slice()?.fill(0); // waits for the copy
/// pinned.copy_from_device(vector.as_slice(), &stream)?; // only enqueues
/// assert_eq!(pinned.as_slice()?, [1, 2, 3]); // waits for the copy
/// # Ok(())
/// # }
/// ```
///
/// A copy on a stream that is being captured becomes part of a graph. While the capture goes on the
/// vector refuses to be read, without spoiling it; afterwards it knows nothing of the graph, and is
/// the host's. Whoever launches the graph answers for the memory being there and for the order of
/// its copies with all other uses: by the launch being `unsafe`, or, where another library's is
/// not, by what [`CudaStream::adopt`](rmm_core::CudaStream::adopt) asks for. What was noted by
/// `use_on` is waited for as ever.
///
/// A slice that the host holds keeps devices from writing:
///
/// ```compile_fail,E0502
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let stream = rmm_core::CudaStream::new()?;
/// # let vector = rmm_containers::DeviceUVector::from_slice(&[1, 2], &stream)?;
/// # let mut pinned = rmm_containers::PinnedVec::from_slice(&[1, 2])?;
/// let host = pinned.as_slice()?;
/// pinned.copy_from_device(vector.as_slice(), &stream)?;
/// assert_eq!(host, [1, 2]);
/// # Ok(())
/// # }
/// ```
pub struct HostVec<T, R>
where
    R: SyncResource + HasProperty<HostAccessible>,
{
    elements: ManuallyDrop<AllocatedVec<T, HostAllocator<R>>>,
    order: Order,
}

impl<T, R> HostVec<T, R>
where
    T: Pod,
    R: SyncResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible> + Default,
{
    /// A vector of `len` elements, all bytes of which are zero.
    ///
    /// # Errors
    /// As [`zeroed_in`](Self::zeroed_in).
    pub fn zeroed(len: usize) -> Result<Self, Error> {
        Self::zeroed_in(len, R::default())
    }

    /// A vector with a copy of `elements`.
    ///
    /// # Errors
    /// As [`zeroed_in`](Self::zeroed_in).
    pub fn from_slice(elements: &[T]) -> Result<Self, Error> {
        Self::from_slice_in(elements, R::default())
    }
}

impl<T, R> HostVec<T, R>
where
    T: Pod,
    R: SyncResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible>,
{
    const ORIGIN: &'static str = "HostVec";

    /// A vector without elements, from `resource`: a resource, a handle to one, or a pool over one.
    ///
    /// # Errors
    /// If there is no driver or no device;
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) for managed memory, if the
    /// current device keeps the host from touching it while work runs
    /// ([`concurrent_managed_access`](rmm_core::Capabilities::concurrent_managed_access)).
    pub fn new_in(resource: R) -> Result<Self, Error> {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        let context = Context::current()?;
        let is_managed = resource.try_property::<MemoryKind>() == Some(MemoryKind::Managed);
        if is_managed && !Device::current()?.capabilities()?.concurrent_managed_access {
            let message = "the host cannot touch managed memory while this device works";
            return Err(Error::unsupported(Self::ORIGIN, message));
        }
        let elements = AllocatedVec::new_in(HostAllocator::new(resource));
        let elements = ManuallyDrop::new(elements);
        Ok(Self { elements, order: Order::of_host_memory(context) })
    }

    /// A vector of `len` elements from `resource`, all bytes of which are zero.
    ///
    /// # Errors
    /// As [`new_in`](Self::new_in), and
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if the resource has no such
    /// memory.
    pub fn zeroed_in(len: usize, resource: R) -> Result<Self, Error> {
        let mut vector = Self::new_in(resource)?;
        vector.resize(len, T::zeroed())?;
        Ok(vector)
    }

    /// A vector from `resource` with a copy of `elements`.
    ///
    /// # Errors
    /// As [`zeroed_in`](Self::zeroed_in).
    pub fn from_slice_in(elements: &[T], resource: R) -> Result<Self, Error> {
        let mut vector = Self::new_in(resource)?;
        vector.extend_from_slice(elements)?;
        Ok(vector)
    }

    /// Changes the number of elements; new ones are `value`. Waits for all work that uses the
    /// vector.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if the resource has no such
    /// memory, or if the wait fails; then nothing has changed.
    pub fn resize(&mut self, len: usize, value: T) -> Result<(), Error> {
        self.grow(len.saturating_sub(self.len()))?.resize(len, value);
        Ok(())
    }

    /// Appends a copy of `elements`. Waits for all work that uses the vector.
    ///
    /// # Errors
    /// As [`resize`](Self::resize).
    pub fn extend_from_slice(&mut self, elements: &[T]) -> Result<(), Error> {
        self.grow(elements.len())?.extend_from_slice(elements);
        Ok(())
    }

    /// The vector with room for `more` elements and no work that uses it.
    fn grow(&mut self, more: usize) -> Result<&mut AllocatedVec<T, HostAllocator<R>>, Error> {
        let len = self.len().checked_add(more).ok_or_else(|| too_many(more))?;
        let layout = Layout::array::<T>(len).map_err(|_| too_many(len))?;
        self.order.wait_on_host(Access::Write)?;
        let reserved = self.elements.try_reserve_exact(more);
        reserved
            .map_err(|_| Error::out_of_memory(self.memory_resource().name()).with_layout(layout))?;
        Ok(&mut self.elements)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Elements that there is room for.
    pub fn capacity(&self) -> usize {
        self.elements.capacity()
    }

    /// The elements, after a wait for all work that writes them.
    ///
    /// # Errors
    /// If the wait fails, for example because that work has failed;
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) while a stream that uses them
    /// is being captured.
    pub fn as_slice(&self) -> Result<&[T], Error> {
        self.order.wait_on_host(Access::Read)?;
        Ok(&self.elements)
    }

    /// The elements, after a wait for all work that uses them.
    ///
    /// # Errors
    /// As [`as_slice`](Self::as_slice).
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        self.order.wait_on_host(Access::Write)?;
        Ok(&mut self.elements)
    }

    /// The host's vector with its allocator, after a wait for all work that uses it.
    ///
    /// # Errors
    /// If the wait fails, for example because that work has failed.
    #[cfg(feature = "allocator-api2")]
    pub fn as_mut_vec(&mut self) -> Result<&mut AllocatedVec<T, HostAllocator<R>>, Error> {
        self.order.wait_on_host(Access::Write)?;
        Ok(&mut self.elements)
    }
}

/// Work of devices, which a vector that is forgotten cannot wait for: so its resource, which the
/// vector owns, must borrow nothing that could end before that work does.
impl<T, R> HostVec<T, R>
where
    T: Pod,
    R: SyncResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible> + 'static,
{
    fn memory(&self) -> Memory<'_> {
        let pointer = if self.elements.capacity() == 0 {
            DevicePtr::NULL
        } else {
            DevicePtr(self.elements.as_ptr().expose_provenance() as u64)
        };
        // SAFETY: there are so many bytes of memory that devices can use, and the order knows all
        // uses. The vector frees them only after a wait for those uses. If the vector is forgotten
        // they stay: it owns a handle to its resource, which borrows nothing (`R:
        // 'static`), so that the resource outlives the vector whatever else is dropped. Views of them are made from a shared borrow to
        // be read, from an exclusive one to be written.
        unsafe {
            Memory::new(
                &self.order,
                self.memory_resource(),
                pointer,
                size_of_val(self.elements.as_slice()),
            )
        }
    }

    /// The elements, to be read by devices.
    pub fn device_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::from_memory(self.memory())
    }

    /// The elements, to be changed by devices.
    pub fn device_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::from_memory(self.memory())
    }

    /// Overwrites the first elements with those of a container, in the order of `stream`: not
    /// complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there are more than the
    /// vector's; whatever the driver reports.
    pub fn copy_from_device<'s>(
        &mut self,
        source: DeviceSlice<'_, T>,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.device_slice_mut().slice(..source.len())?.copy_from(source, stream)
    }
}

fn too_many(len: usize) -> Error {
    Error::invalid_argument("HostVec", format!("{len} elements are too many for any memory"))
}

impl<T, R: SyncResource + HasProperty<HostAccessible>> HasResource for HostVec<T, R> {
    type Resource = R;

    fn memory_resource(&self) -> &R {
        self.elements.allocator().resource()
    }
}

/// Addresses and sizes, never contents.
impl<T, R: SyncResource + HasProperty<HostAccessible>> fmt::Debug for HostVec<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostVec")
            .field("element", &format_args!("{}", type_name::<T>()))
            .field("pointer", &self.elements.as_ptr())
            .field("len", &self.elements.len())
            .field("capacity", &self.elements.capacity())
            .field("used_on", &self.order)
            .field("resource", self.memory_resource())
            .finish()
    }
}

impl<T, R: SyncResource + HasProperty<HostAccessible>> Drop for HostVec<T, R> {
    fn drop(&mut self) {
        // An error does not say that work is over. Memory that a device may still use had better be
        // lost, and with it the handle to its resource, whose end could give the memory back too.
        if self.order.wait_on_host(Access::Write).is_ok() && !self.order.context_has_ended() {
            // SAFETY: it is dropped here only, and not used any more.
            unsafe { ManuallyDrop::drop(&mut self.elements) };
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<PinnedVec<f64>>();
};
