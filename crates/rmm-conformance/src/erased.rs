//! Type-erased resources under test: each check is compiled once.

use std::alloc::Layout;

use rmm_adaptors::CallbackMemoryResource;
use rmm_core::{
    AnyResource, DeviceAccessible, DevicePtr, Error, HasProperty, Query, Resource, StreamRef,
    Structure, SynchronousResource,
};
use rmm_spec::{ResourceSpec, stacks::NamedStack};

/// Bytes of an arena, at least.
const LEAST_ARENA: usize = 16 << 20;

/// A resource of the list of stacks. A type of its own, and not `AnyResource`, since a type-erased
/// resource that is erased again stays what it was, and the suite checks what erasure keeps.
#[derive(Clone, PartialEq, Debug)]
pub struct ErasedStack(AnyResource);

impl ErasedStack {
    /// Creates the stack on the current device. Pools take at most `room` bytes.
    ///
    /// # Errors
    /// The error of the resource that cannot be created.
    pub(crate) fn new(stack: &NamedStack, room: usize) -> Result<Self, Error> {
        let (max, size) = (room.to_string(), room.max(LEAST_ARENA).to_string());
        let text = stack.spec_with(&[("max", &*max), ("size", &size), ("bins", "10..16")]);
        let spec: ResourceSpec = text.parse().map_err(|error| {
            Error::invalid_argument("conformance", format!("{}: {error}", stack.name))
        })?;
        let resource = spec.build()?;
        Ok(Self(if stack.name == "callback" { called_back(resource) } else { resource }))
    }
}

/// `CallbackMemoryResource` with the functions of a resource.
fn called_back(resource: AnyResource) -> AnyResource {
    let same = resource.clone();
    let allocate = move |stream: StreamRef<'_>, layout| resource.allocate(stream, layout);
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        // SAFETY: it came from the other function, with this layout.
        unsafe { same.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are a resource's.
    AnyResource::new(unsafe { CallbackMemoryResource::new(allocate, free) })
}

// SAFETY: every call goes to the resource inside, which keeps the contract.
unsafe impl SynchronousResource for ErasedStack {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        self.0.structure()
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        self.0.provide(query);
    }
}

// SAFETY: as above.
unsafe impl Resource for ErasedStack {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate(stream, pointer, layout) }
    }
}

// SAFETY: what is inside has it.
unsafe impl HasProperty<DeviceAccessible> for ErasedStack {}
