//! A memory resource made of two functions of the program.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rmm_core::siblings::{MayBeWaitedFor, allocate_in_program, in_program};
use rmm_core::{
    Contains, DeviceAccessible, DevicePtr, Error, HasProperty, HasPropertyValue, MemoryKind,
    Property, PropertySet, Query, Resource, SatisfiedBy, StreamRef, SynchronousResource, fork,
    is_pointer_aligned, process_is_exiting, wait,
};

const NAME: &str = "callback";

type Allocate = dyn Fn(StreamRef<'_>, Layout) -> Result<DevicePtr, Error> + Send + Sync;
type Deallocate = dyn Fn(StreamRef<'_>, DevicePtr, Layout) + Send + Sync;

/// Allocates and frees with two functions, such as those of a foreign allocator.
///
/// The caller of the constructor states what the memory is: device-accessible, or of any other [set
/// of properties](Self::with_properties), and, if all of it is of one [kind](Self::with_kind), that
/// as well.
///
/// A null pointer from the allocating function means that it is out of memory: the request fails
/// with [`OutOfMemory`](rmm_core::ErrorKind::OutOfMemory), since C allocation functions report
/// failure this way (RMM returns the null pointer to its caller). A synchronous call passes the
/// legacy default stream and synchronizes it. A block that is not aligned as requested is freed,
/// and the request fails with [`Unsupported`](rmm_core::ErrorKind::Unsupported). A panic of the
/// freeing function is caught.
///
/// The allocating function may be called more than once for one request: if it is out of memory,
/// and a resource of this library that it called is too, it is called again after other pools of
/// the process have returned memory.
///
/// It is a handle: clones share the functions and are equal.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::CallbackMemoryResource;
/// use rmm_core::{CudaStream, Resource, StreamRef};
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pool = CudaAsyncMemoryResource::new()?;
/// let same_pool = pool.clone();
/// let allocate = move |stream: StreamRef<'_>, layout| pool.allocate(stream, layout);
/// let free = move |stream: StreamRef<'_>, pointer, layout| {
///     // SAFETY: it was allocated by the other function, with this layout.
///     unsafe { same_pool.deallocate(stream, pointer, layout) }
/// };
/// // SAFETY: the functions are those of a resource.
/// let resource = unsafe { CallbackMemoryResource::new(allocate, free) };
/// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(1000, 256)?);
/// let block = resource.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { resource.deallocate(&stream, block, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "allocate_callback_t")]
#[doc(alias = "deallocate_callback_t")]
#[doc(alias = "rmm::mr::callback_memory_resource")]
#[derive(Clone)]
pub struct CallbackMemoryResource<S: PropertySet = DeviceAccessible> {
    functions: Arc<Functions>,
    /// The kind of all memory, if it was stated.
    kind: Option<MemoryKind>,
    /// The properties of all memory.
    properties: PhantomData<S>,
}

struct Functions {
    allocate: Box<Allocate>,
    deallocate: Box<Deallocate>,
}

impl CallbackMemoryResource {
    /// A resource over functions that manage device memory.
    ///
    /// # Safety
    /// The functions keep the contract of [`Resource`] for device memory: work on the device may
    /// use what the first returns, in the order of the stream, until it is passed to the second.
    /// The second is called with the arguments of an allocation that was not freed before.
    pub unsafe fn new(
        allocate: impl Fn(StreamRef<'_>, Layout) -> Result<DevicePtr, Error> + Send + Sync + 'static,
        deallocate: impl Fn(StreamRef<'_>, DevicePtr, Layout) + Send + Sync + 'static,
    ) -> Self {
        // SAFETY: the caller's contract is the same: memory that the device may use is accessible
        // to it.
        unsafe { Self::with_properties(allocate, deallocate) }
    }
}

impl<S: PropertySet> CallbackMemoryResource<S> {
    /// A resource over functions whose memory has every property of `S`.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::CallbackMemoryResource;
    /// use rmm_core::{HostDeviceAccessible, Introspect, MemoryKind, Resource, StreamRef, SynchronousResource};
    /// use rmm_resources::PinnedHostMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pinned = PinnedHostMemoryResource::new();
    /// let allocate = move |stream: StreamRef<'_>, layout| pinned.allocate(stream, layout);
    /// let pinned = PinnedHostMemoryResource::new();
    /// let free = move |stream: StreamRef<'_>, pointer, layout| {
    ///     // SAFETY: it was allocated by the other function, with this layout.
    ///     unsafe { pinned.deallocate(stream, pointer, layout) }
    /// };
    /// // SAFETY: the functions are those of a resource of pinned memory.
    /// let resource = unsafe {
    ///     CallbackMemoryResource::<HostDeviceAccessible>::with_properties(allocate, free)
    ///         .with_kind(MemoryKind::Pinned)
    /// };
    /// assert!(resource.has_all::<HostDeviceAccessible>());
    /// assert_eq!(resource.try_property::<MemoryKind>(), Some(MemoryKind::Pinned));
    /// # let layout = Layout::from_size_align(1000, 256)?;
    /// # let block = resource.allocate_sync(layout)?;
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { resource.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// The functions keep the contract of [`Resource`]: what the first returns has all these
    /// properties, and may be used accordingly, in the order of the stream, until it is passed to
    /// the second. The second is called with the arguments of an allocation that was not freed
    /// before.
    pub unsafe fn with_properties(
        allocate: impl Fn(StreamRef<'_>, Layout) -> Result<DevicePtr, Error> + Send + Sync + 'static,
        deallocate: impl Fn(StreamRef<'_>, DevicePtr, Layout) + Send + Sync + 'static,
    ) -> Self {
        let functions =
            Functions { allocate: Box::new(allocate), deallocate: Box::new(deallocate) };
        Self { functions: Arc::new(functions), kind: None, properties: PhantomData }
    }

    /// States the kind of the memory, for queries at run time. Clones made before do not report it.
    ///
    /// # Safety
    /// All memory of the functions is of this kind.
    #[must_use = "only the returned handle reports the kind"]
    pub unsafe fn with_kind(mut self, kind: MemoryKind) -> Self {
        self.kind = Some(kind);
        self
    }

    fn free(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if fork::is_child() {
            return;
        }
        // A free may be part of a `Drop`, which must not unwind.
        let _ignored = catch_unwind(AssertUnwindSafe(|| {
            in_program(|| (self.functions.deallocate)(stream, pointer, layout));
        }));
    }
}

impl<S: PropertySet> PartialEq for CallbackMemoryResource<S> {
    /// Whether both are handles to the same functions.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.functions, &other.functions)
    }
}

impl<S: PropertySet> Eq for CallbackMemoryResource<S> {}

impl<S: PropertySet> fmt::Debug for CallbackMemoryResource<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackMemoryResource").field("kind", &self.kind).finish_non_exhaustive()
    }
}

// SAFETY: the constructor's caller promised the contract for the functions. The stream is
// synchronized, so any other stream may use the memory.
unsafe impl<S: SatisfiedBy<Self>> SynchronousResource for CallbackMemoryResource<S> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let stream = StreamRef::legacy();
        let pointer = self.allocate(stream, layout)?;
        if let Err(error) = stream.synchronize() {
            self.free(stream, pointer, layout);
            return Err(error);
        }
        Ok(pointer)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let stream = StreamRef::legacy();
        self.free(stream, pointer, layout);
        if !process_is_exiting() {
            // If it cannot be synchronized, the device is lost, and no work will use the memory.
            let _ignored = stream.synchronize();
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
        query.properties(self).has_all::<S>();
        if let Some(kind) = self.kind {
            query.properties(&Known(kind)).has_value::<MemoryKind>();
        }
    }
}

// SAFETY: the constructor's caller promised the contract for the functions.
unsafe impl<S: SatisfiedBy<Self>> Resource for CallbackMemoryResource<S> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        fork::check()?;
        let allocate = move || {
            wait::about_to_wait();
            (self.functions.allocate)(stream, layout)
        };
        let pointer = allocate_in_program(Some(stream), allocate)?;
        if pointer == DevicePtr::NULL {
            return Err(Error::out_of_memory(NAME).with_layout(layout).with_stream(stream.id()));
        }
        if !is_pointer_aligned(pointer, layout.align()) {
            self.free(stream, pointer, layout);
            let message =
                format!("the function returned {pointer:?}, which is not aligned as requested");
            return Err(Error::unsupported(NAME, message).with_layout(layout));
        }
        Ok(pointer)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        self.free(stream, pointer, layout);
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the constructor's caller promised that the memory has these properties.
unsafe impl<S: Contains<P>, P: Property> HasProperty<P> for CallbackMemoryResource<S> {}

/// The properties of the memory, for a resource whose type does not state them.
struct Known(MemoryKind);

// SAFETY: the caller of `with_kind` promised that all memory is of this kind.
unsafe impl HasProperty<MemoryKind> for Known {}

impl HasPropertyValue<MemoryKind> for Known {
    fn property_value(&self) -> MemoryKind {
        self.0
    }
}
