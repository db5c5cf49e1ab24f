//! Vectors in memory that the host and devices share.

mod make;

use std::alloc::Layout;
use std::any::type_name;
use std::fmt;
use std::mem::ManuallyDrop;

use allocator_api2::vec::Vec as AllocatedVec;
use bytemuck::Pod;
use rmm_core::{
    Annotator, Context, Device, DeviceAccessible, DevicePtr, Error, HasProperty, HasResource,
    HostAccessible, StreamRef, SynchronousResource, process_is_exiting,
};
use rmm_resources::{ManagedMemoryResource, PinnedHostMemoryResource};

use crate::host_allocator::HostAllocator;
use crate::range_view::RangeView;
use crate::use_tracker::{Access, UseTracker};
use crate::{DeviceSlice, DeviceSliceMut};

/// A vector in pinned (page-locked) host memory: the fastest source and target of copies.
#[doc(alias = "pinned_host_vector")]
pub type PinnedVec<T> = HostVec<T, PinnedHostMemoryResource>;

/// A vector in managed memory, which migrates between host and devices on access.
#[doc(alias = "managed_vector")]
pub type ManagedVec<T> = HostVec<T, ManagedMemoryResource>;

/// Elements of a plain-data type in memory that the host and devices share.
///
/// Devices use the elements through [`device_slice`](Self::device_slice) and
/// [`device_slice_mut`](Self::device_slice_mut), as those of any container: copies are enqueued and
/// the vector records them. The host uses them through [`as_slice`](Self::as_slice), which first
/// waits for work that writes them, and [`as_mut_slice`](Self::as_mut_slice), which first waits for
/// all work on them. Dropping the vector waits for all work, too; a vector that is leaked stays
/// allocated.
///
/// The resource may be borrowed if only the host uses the elements. For device slices the vector
/// must own it (`R: 'static`), as a handle to a pool for example: a leaked vector waits for
/// nothing, so a borrowed resource could be dropped while devices still use its memory.
///
/// ```
/// use rmm_containers::{DeviceUVector, PinnedVec};
/// use rmm_core::CudaStream;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let mut pinned = PinnedVec::from_slice(&[1, 2, 3])?;
/// let mut vector = DeviceUVector::zeroed(3, &stream)?;
/// vector.copy_from(pinned.device_slice())?; // only enqueues
/// assert_eq!(pinned.as_slice()?, [1, 2, 3]); // no work writes the elements: no wait
/// pinned.as_mut_slice()?.fill(0); // waits for the copy
/// pinned.copy_from_device(vector.as_slice(), &stream)?; // only enqueues
/// assert_eq!(pinned.as_slice()?, [1, 2, 3]); // waits for the copy
/// # Ok(())
/// # }
/// ```
///
/// A copy on a stream that is being captured becomes part of a graph. During the capture, calls
/// that access the vector on the host return an error and leave the capture intact. After it, the
/// vector does not track the graph, and the host may access it at once. A program that launches the
/// graph promises that the memory is still allocated and that the graph's copies are ordered with
/// all other uses: by `unsafe` at the launch or, where launching is safe, by the safety section of
/// [`CudaStream::adopt`](rmm_core::CudaStream::adopt). Uses that `use_on` recorded are waited for
/// as usual.
///
/// Devices cannot write while the host holds a slice:
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
    R: SynchronousResource + HasProperty<HostAccessible>,
{
    elements: ManuallyDrop<AllocatedVec<T, HostAllocator<R>>>,
    tracker: UseTracker,
}

impl<T, R> HostVec<T, R>
where
    T: Pod,
    R: SynchronousResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible>,
{
    const ORIGIN: &'static str = "HostVec";

    /// Names the vector. Its `Debug` output, its out-of-range errors and the software device's
    /// reports show the name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.tracker.set_name(name.into().into_boxed_str());
        self.report_name();
        self
    }

    /// Reports the name to a checker, if the vector has one: when it gets it, and when the memory
    /// may have moved.
    fn report_name(&self) {
        if let Some(name) = self.name() {
            let bytes = self.capacity() * size_of::<T>();
            Annotator::name_memory(device_address(&self.elements), bytes, Some(name));
        }
    }

    /// The name, if the vector [has one](Self::with_name).
    pub fn name(&self) -> Option<&str> {
        self.tracker.name()
    }

    /// The resource that the memory comes from.
    #[doc(alias = "memory_resource")]
    pub fn resource(&self) -> &R {
        self.elements.allocator().resource()
    }

    /// The context that the vector was made in.
    pub fn context(&self) -> Context {
        self.tracker.context()
    }

    /// The device that was current when the vector was made.
    ///
    /// # Errors
    /// An error with [`is_context_lost`](Error::is_context_lost) if the device was reset; whatever
    /// the driver reports.
    pub fn device(&self) -> Result<Device, Error> {
        let _context = self.context().enter()?;
        Device::current()
    }

    /// Sets the length; new elements are `value`. Waits for all work on the vector.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if the resource cannot allocate
    /// the memory; whatever the wait reports. The vector is then unchanged.
    pub fn resize(&mut self, len: usize, value: T) -> Result<(), Error> {
        self.grow(len.saturating_sub(self.len()))?.resize(len, value);
        Ok(())
    }

    /// Appends a copy of `elements`. Waits for all work on the vector.
    ///
    /// # Errors
    /// The errors of [`resize`](Self::resize).
    pub fn extend_from_slice(&mut self, elements: &[T]) -> Result<(), Error> {
        self.grow(elements.len())?.extend_from_slice(elements);
        Ok(())
    }

    /// The host's vector, with capacity for `more` elements, after a wait for all work on it.
    fn grow(&mut self, more: usize) -> Result<&mut AllocatedVec<T, HostAllocator<R>>, Error> {
        let len = self.len().checked_add(more).ok_or_else(|| too_many(more))?;
        let layout = Layout::array::<T>(len).map_err(|_| too_many(len))?;
        let _entered = self.context().enter()?;
        self.tracker.wait_on_host(Access::Write)?;
        let reserved = self.elements.try_reserve_exact(more);
        reserved.map_err(|_| Error::out_of_memory(self.resource().name()).with_layout(layout))?;
        self.report_name();
        Ok(&mut self.elements)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Number of elements that fit into the allocated memory.
    pub fn capacity(&self) -> usize {
        self.elements.capacity()
    }

    /// The elements, after a wait for all work that writes them.
    ///
    /// # Errors
    /// Whatever the wait reports, such as the failure of that work;
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) while a stream that uses the
    /// elements is being captured.
    pub fn as_slice(&self) -> Result<&[T], Error> {
        self.tracker.wait_on_host(Access::Read)?;
        Ok(&self.elements)
    }

    /// The elements, after a wait for all work that uses them.
    ///
    /// # Errors
    /// The errors of [`as_slice`](Self::as_slice).
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        self.tracker.wait_on_host(Access::Write)?;
        Ok(&mut self.elements)
    }
}

/// # Use by devices
///
/// A leaked vector does not wait for work of devices. So the resource that it owns must not borrow
/// anything that may end before that work does.
impl<T, R> HostVec<T, R>
where
    T: Pod,
    R: SynchronousResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible> + 'static,
{
    fn range(&self) -> RangeView<'_> {
        // SAFETY: 1. The range has this many bytes of device-accessible memory, and the order knows
        // all uses. 2. The vector frees them only after a wait for those uses. If the vector is
        // leaked they stay allocated: it owns a handle to its resource, which borrows nothing (`R:
        // 'static`), so the resource outlives the vector whatever else is dropped. 3. Views for
        // reading are made from a shared borrow, views for writing from an exclusive one.
        unsafe {
            RangeView::new(
                &self.tracker,
                self.resource(),
                device_address(&self.elements),
                size_of_val(self.elements.as_slice()),
            )
        }
    }

    /// Borrows the elements for reading by devices.
    pub fn device_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::from_range(self.range())
    }

    /// Borrows the elements for reading and writing by devices.
    pub fn device_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::from_range(self.range())
    }

    /// Overwrites the first elements with those of a container, in the order of `stream`; not
    /// complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `source` is longer than the
    /// vector; whatever the driver reports.
    pub fn copy_from_device<'s>(
        &mut self,
        source: DeviceSlice<'_, T>,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<(), Error> {
        self.device_slice_mut().slice(..source.len())?.copy_from_on(source, stream)
    }
}

/// The address of the elements; null if no memory is allocated.
fn device_address<T, R: SynchronousResource + HasProperty<HostAccessible>>(
    elements: &AllocatedVec<T, HostAllocator<R>>,
) -> DevicePtr {
    match elements.capacity() {
        0 => DevicePtr::NULL,
        _ => DevicePtr(elements.as_ptr().expose_provenance() as u64),
    }
}

fn too_many(len: usize) -> Error {
    Error::invalid_argument("HostVec", format!("{len} elements are more than can be addressed"))
}

impl<T, R: SynchronousResource + HasProperty<HostAccessible>> HasResource for HostVec<T, R> {
    type Resource = R;

    fn memory_resource(&self) -> &R {
        self.elements.allocator().resource()
    }
}

/// Addresses and sizes, not the contents.
impl<T, R: SynchronousResource + HasProperty<HostAccessible>> fmt::Debug for HostVec<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("HostVec");
        if let Some(name) = self.tracker.name() {
            fields.field("name", &name);
        }
        fields
            .field("element", &format_args!("{}", type_name::<T>()))
            .field("pointer", &self.elements.as_ptr())
            .field("len", &self.elements.len())
            .field("capacity", &self.elements.capacity())
            .field("used_on", &self.tracker)
            .field("resource", self.elements.allocator().resource())
            .finish()
    }
}

impl<T, R: SynchronousResource + HasProperty<HostAccessible>> Drop for HostVec<T, R> {
    fn drop(&mut self) {
        // At process exit the system frees all memory, and the driver may have shut down: it is not
        // asked whether work that uses the memory is complete.
        if process_is_exiting() {
            return;
        }
        // An error does not mean that the work is complete. Memory that a device may still use is
        // leaked, and with it the handle to its resource, whose drop could free the memory too.
        if self.tracker.wait_on_host(Access::Write).is_ok() {
            let memory = device_address(&self.elements);
            let bytes = self.elements.capacity() * size_of::<T>();
            // Memory that has ended with its context is not freed by the allocator.
            // SAFETY: dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.elements) };
            if self.tracker.name().is_some() {
                Annotator::name_memory(memory, bytes, None);
            }
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<PinnedVec<f64>>();
};
