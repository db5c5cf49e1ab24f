//! The constructors of [`HostVec`].

use std::mem::ManuallyDrop;

use allocator_api2::vec::Vec as AllocatedVec;
use bytemuck::Pod;
use rmm_core::{
    Context, Device, DeviceAccessible, Error, HasProperty, HostAccessible, Introspect as _,
    MemoryKind, SynchronousResource,
};

use super::HostVec;
use crate::host_allocator::HostAllocator;
use crate::use_tracker::UseTracker;

/// # Constructors
///
/// Those without suffix take the default resource of the type, such as
/// [`PinnedHostMemoryResource`](rmm_resources::PinnedHostMemoryResource) for
/// [`PinnedVec`](crate::PinnedVec); those that end in `_in` take the resource that is named: a
/// resource, a handle to one, or a pool over one. There is no `uninit`, since the host may read the
/// elements.
impl<T, R> HostVec<T, R>
where
    T: Pod,
    R: SynchronousResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible> + Default,
{
    /// An empty vector.
    ///
    /// # Errors
    /// The errors of [`new_in`](Self::new_in).
    pub fn new() -> Result<Self, Error> {
        Self::new_in(R::default())
    }

    /// A vector of `len` elements all bytes of which are zero.
    ///
    /// # Errors
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    pub fn zeroed(len: usize) -> Result<Self, Error> {
        Self::zeroed_in(len, R::default())
    }

    /// A vector of `len` elements that all are `value`.
    ///
    /// # Errors
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    pub fn filled(value: T, len: usize) -> Result<Self, Error> {
        Self::filled_in(value, len, R::default())
    }

    /// A vector with a copy of `elements`.
    ///
    /// # Errors
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    pub fn from_slice(elements: &[T]) -> Result<Self, Error> {
        Self::from_slice_in(elements, R::default())
    }

    /// A vector of `len` elements, the one at index `i` being `value(i)`.
    ///
    /// # Errors
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    pub fn from_fn(value: impl FnMut(usize) -> T, len: usize) -> Result<Self, Error> {
        Self::from_fn_in(value, len, R::default())
    }
}

impl<T, R> HostVec<T, R>
where
    T: Pod,
    R: SynchronousResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible>,
{
    /// An empty vector, from `resource`.
    ///
    /// # Errors
    /// If there is no driver or no device;
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) for managed memory, if the
    /// current device does not let the host access it while work runs
    /// ([`concurrent_managed_access`](rmm_core::Capabilities::concurrent_managed_access)).
    pub fn new_in(resource: R) -> Result<Self, Error> {
        Self::with_allocator(HostAllocator::new(resource))
    }

    fn with_allocator(allocator: HostAllocator<R>) -> Result<Self, Error> {
        const { assert!(size_of::<T>() > 0, "elements without size cannot be counted") };
        // A clone of another vector's stays in its context.
        let context = allocator.context().map_or_else(Context::current, Ok)?;
        let _entered = context.enter()?;
        let kind = allocator.resource().try_property::<MemoryKind>();
        let is_managed = kind == Some(MemoryKind::Managed);
        if is_managed && !Device::current()?.capabilities()?.concurrent_managed_access {
            let message = "the host cannot access managed memory while this device works";
            return Err(Error::unsupported(Self::ORIGIN, message));
        }
        let elements = ManuallyDrop::new(AllocatedVec::new_in(allocator));
        Ok(Self { elements, tracker: UseTracker::for_host_memory(context) })
    }

    /// A vector of `len` elements all bytes of which are zero, from `resource`.
    ///
    /// # Errors
    /// The errors of [`new_in`](Self::new_in);
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if the resource cannot allocate
    /// the memory.
    pub fn zeroed_in(len: usize, resource: R) -> Result<Self, Error> {
        Self::filled_in(T::zeroed(), len, resource)
    }

    /// A vector of `len` elements that all are `value`, from `resource`.
    ///
    /// # Errors
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    pub fn filled_in(value: T, len: usize, resource: R) -> Result<Self, Error> {
        let mut vector = Self::new_in(resource)?;
        vector.resize(len, value)?;
        Ok(vector)
    }

    /// A vector with a copy of `elements`, from `resource`.
    ///
    /// # Errors
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    pub fn from_slice_in(elements: &[T], resource: R) -> Result<Self, Error> {
        let mut vector = Self::new_in(resource)?;
        vector.extend_from_slice(elements)?;
        Ok(vector)
    }

    /// A vector of `len` elements, the one at index `i` being `value(i)`, from `resource`.
    ///
    /// # Errors
    /// The errors of [`zeroed_in`](Self::zeroed_in).
    pub fn from_fn_in(
        value: impl FnMut(usize) -> T,
        len: usize,
        resource: R,
    ) -> Result<Self, Error> {
        let mut vector = Self::new_in(resource)?;
        vector.grow(len)?.extend((0..len).map(value));
        Ok(vector)
    }

    /// Copies the elements to a new vector from the same resource, after a wait for all work that
    /// writes them.
    ///
    /// ```
    /// use rmm_containers::PinnedVec;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let squares = PinnedVec::from_fn(|i| (i * i) as u32, 4)?;
    /// assert_eq!(squares.try_clone()?.as_slice()?, [0, 1, 4, 9]);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`zeroed_in`](Self::zeroed_in) and [`as_slice`](Self::as_slice).
    pub fn try_clone(&self) -> Result<Self, Error> {
        let mut clone = Self::with_allocator(self.elements.allocator().clone())?;
        clone.extend_from_slice(self.as_slice()?)?;
        Ok(clone)
    }

    /// Copies the elements to a new vector from `resource`, after a wait for all work that writes
    /// them.
    ///
    /// # Errors
    /// The errors of [`try_clone`](Self::try_clone).
    pub fn try_clone_in(&self, resource: R) -> Result<Self, Error> {
        Self::from_slice_in(self.as_slice()?, resource)
    }
}
