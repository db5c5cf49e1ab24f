//! Memory from functions of the program's own.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rmm_core::{
    AnyResource, Contains, DeviceAccessible, DevicePtr, Error, HasProperty, HasPropertyValue,
    MemoryKind, Property, PropertySet, Request, Resource, SatisfiedBy, StreamRef, SyncResource,
    is_pointer_aligned, process_is_exiting,
};

const NAME: &str = "callback";

type Allocate = dyn Fn(StreamRef<'_>, Layout) -> Result<DevicePtr, Error> + Send + Sync;
type Deallocate = dyn Fn(StreamRef<'_>, DevicePtr, Layout) + Send + Sync;

/// Memory from two functions: a foreign allocator's, say.
///
/// What the memory can do, whoever makes the resource says: that the device can use it, or any
/// other [set of properties](Self::with_properties); and if it is all of one
/// [kind](Self::with_kind), that as well.
///
/// A null pointer from the function that allocates is a lack of memory: the request is refused as
/// [out of memory](rmm_core::ErrorKind::OutOfMemory), as with the C functions that such callbacks
/// often wrap (RMM hands the null pointer on). Zero bytes reach neither function. A synchronous
/// call goes to them on the legacy default stream, which is then waited for. Memory whose address
/// is not aligned as it was asked for is given back, and the request refused as
/// [unsupported](rmm_core::ErrorKind::Unsupported). A panic of the function that frees ends there.
///
/// It is a handle: clones share the functions, and two are equal if they do.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::CallbackMemoryResource;
/// use rmm_core::{CudaStream, Resource, StreamRef};
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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
#[doc(alias = "rmm::mr::callback_memory_resource")]
pub struct CallbackMemoryResource<S: PropertySet = DeviceAccessible> {
    functions: Arc<Functions>,
    /// All memory is of this kind, if it says.
    kind: Option<MemoryKind>,
    /// All memory has these properties.
    properties: PhantomData<S>,
}

struct Functions {
    allocate: Box<Allocate>,
    deallocate: Box<Deallocate>,
}

impl CallbackMemoryResource {
    /// Takes the functions in, which give memory for the device.
    ///
    /// # Safety
    /// They keep the contract of [`Resource`] for device memory: what the first returns may be used
    /// by work on the device, in the order of the stream, until it is given to the second, whose
    /// arguments are always those of an allocation that was not freed before.
    pub unsafe fn new(
        allocate: impl Fn(StreamRef<'_>, Layout) -> Result<DevicePtr, Error> + Send + Sync + 'static,
        deallocate: impl Fn(StreamRef<'_>, DevicePtr, Layout) + Send + Sync + 'static,
    ) -> Self {
        // SAFETY: the caller's contract is the same: what the device may use is accessible to it.
        unsafe { Self::with_properties(allocate, deallocate) }
    }
}

impl<S: PropertySet> CallbackMemoryResource<S> {
    /// Takes the functions in, which give memory that has every property of `S`.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::CallbackMemoryResource;
    /// use rmm_core::{HostDeviceAccessible, Introspect, MemoryKind, Resource, StreamRef, SyncResource};
    /// use rmm_resources::PinnedHostMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let pinned = PinnedHostMemoryResource::new();
    /// let allocate = move |stream: StreamRef<'_>, layout| pinned.allocate(stream, layout);
    /// let pinned = PinnedHostMemoryResource::new();
    /// let free = move |stream: StreamRef<'_>, pointer, layout| {
    ///     // SAFETY: it was allocated by the other function, with this layout.
    ///     unsafe { pinned.deallocate(stream, pointer, layout) }
    /// };
    /// // SAFETY: the functions are those of a resource of pinned memory.
    /// let resource = unsafe {
    ///     CallbackMemoryResource::<HostDeviceAccessible>::with_properties(allocate, free).with_kind(MemoryKind::Pinned)
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
    /// They keep the contract of [`Resource`]: what the first returns has all these properties, and
    /// may be used as they say in the order of the stream, until it is given to the second, whose
    /// arguments are always those of an allocation that was not freed before.
    pub unsafe fn with_properties(
        allocate: impl Fn(StreamRef<'_>, Layout) -> Result<DevicePtr, Error> + Send + Sync + 'static,
        deallocate: impl Fn(StreamRef<'_>, DevicePtr, Layout) + Send + Sync + 'static,
    ) -> Self {
        let functions =
            Functions { allocate: Box::new(allocate), deallocate: Box::new(deallocate) };
        Self { functions: Arc::new(functions), kind: None, properties: PhantomData }
    }

    /// Tells whoever asks at run time what kind of memory it is. Handles that were cloned before do
    /// not.
    ///
    /// # Safety
    /// All memory of the functions is of this kind.
    #[must_use = "it is this handle that tells"]
    pub unsafe fn with_kind(mut self, kind: MemoryKind) -> Self {
        self.kind = Some(kind);
        self
    }

    fn free(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // A free may be part of a `Drop`, which a panic must not leave.
        let _ended = catch_unwind(AssertUnwindSafe(|| {
            (self.functions.deallocate)(stream, pointer, layout);
        }));
    }
}

impl<S: PropertySet> Clone for CallbackMemoryResource<S> {
    fn clone(&self) -> Self {
        Self { functions: Arc::clone(&self.functions), ..*self }
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

// SAFETY: whoever made it promised the contract for the functions; the stream is waited for, so
// that every other may use the memory.
unsafe impl<S: SatisfiedBy<Self>> SyncResource for CallbackMemoryResource<S> {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let stream = StreamRef::legacy();
        let pointer = self.allocate(stream, layout)?;
        if layout.size() > 0
            && let Err(error) = stream.synchronize()
        {
            self.free(stream, pointer, layout);
            return Err(error);
        }
        Ok(pointer)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        if layout.size() > 0 {
            let stream = StreamRef::legacy();
            self.free(stream, pointer, layout);
            if !process_is_exiting() {
                // If it cannot be waited for, the device is lost, and nobody will use the memory.
                let _waited = stream.synchronize();
            }
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        request.handle(self);
        request.properties(self).has_all::<S>();
        if let Some(kind) = self.kind {
            request.properties(&Known(kind)).has_value::<MemoryKind>();
        }
    }
}

// SAFETY: whoever made it promised the contract for the functions.
unsafe impl<S: SatisfiedBy<Self>> Resource for CallbackMemoryResource<S> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        let pointer = (self.functions.allocate)(stream, layout)?;
        if pointer == DevicePtr::NULL {
            return Err(Error::out_of_memory(NAME).with_layout(layout).with_stream(stream.id()));
        }
        if !is_pointer_aligned(pointer, layout.align()) {
            self.free(stream, pointer, layout);
            let message = format!("the function returned {pointer:?}, which is not so aligned");
            return Err(Error::unsupported(NAME, message).with_layout(layout));
        }
        Ok(pointer)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if layout.size() > 0 {
            self.free(stream, pointer, layout);
        }
    }

    fn to_any(&self) -> Option<AnyResource<()>>
    where
        Self: 'static,
    {
        Some(AnyResource::of(self))
    }
}

// SAFETY: whoever made it promised it.
unsafe impl<S: Contains<P>, P: Property> HasProperty<P> for CallbackMemoryResource<S> {}

/// What is known of the memory of a resource whose type does not say it.
struct Known(MemoryKind);

// SAFETY: whoever gave the kind promised it.
unsafe impl HasProperty<MemoryKind> for Known {}

impl HasPropertyValue<MemoryKind> for Known {
    fn property_value(&self) -> MemoryKind {
        self.0
    }
}
