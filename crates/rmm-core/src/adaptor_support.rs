//! Support code for [`adaptor!`](crate::adaptor) and the adaptors of this library.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::siblings::{allocate_in_program, in_library};
use crate::{DevicePtr, Error, Query, Resource, StreamRef, SynchronousResource};

/// The calls of an upstream, synchronous or on a stream.
pub trait Calls {
    /// Allocates memory: by [`SynchronousResource::allocate_sync`], or on the stream by
    /// [`Resource::allocate`].
    ///
    /// # Errors
    /// Those of the upstream.
    fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error>;

    /// Frees memory.
    ///
    /// # Safety
    /// The memory came from [`allocate`](Self::allocate) with this layout, is not freed already,
    /// and nothing uses it.
    unsafe fn deallocate(&self, pointer: DevicePtr, layout: Layout);

    /// The stream, if the calls are on one.
    fn stream(&self) -> Option<StreamRef<'_>>;
}

/// Synchronous calls.
#[derive(Debug)]
pub struct SyncCalls<'u, U>(pub &'u U);

impl<U: SynchronousResource> Calls for SyncCalls<'_, U> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate_sync(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { self.0.deallocate_sync(pointer, layout) }
    }

    fn stream(&self) -> Option<StreamRef<'_>> {
        None
    }
}

/// Calls on a stream.
#[derive(Debug)]
pub struct StreamCalls<'u, U>(pub &'u U, pub StreamRef<'u>);

impl<U: Resource> Calls for StreamCalls<'_, U> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate(self.1, layout)
    }

    #[inline]
    unsafe fn deallocate(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract: nothing uses the memory, so all uses are ordered before
        // this place on the stream.
        unsafe { self.0.deallocate(self.1, pointer, layout) }
    }

    #[inline]
    fn stream(&self) -> Option<StreamRef<'_>> {
        Some(self.1)
    }
}

/// What an adaptor does with its calls, written once for both kinds. The resource traits are
/// implemented with it.
///
/// # Safety
/// It keeps the contract of [`SynchronousResource`], and of [`Resource`] if the upstream is one, as
/// long as the calls of the [upstream](Self::below) keep it, which is always the same one. The
/// memory has all properties of the upstream's.
pub unsafe trait AdaptedResource {
    /// The upstream's type.
    type Upstream: SynchronousResource;

    /// The upstream.
    fn below(&self) -> &Self::Upstream;

    /// Allocates memory by these calls of the upstream, to implement
    /// [`SynchronousResource::do_allocate_sync`] and [`Resource::do_allocate`].
    ///
    /// # Errors
    /// As those.
    fn allocate_through<C: Calls>(&self, calls: &C, layout: Layout) -> Result<DevicePtr, Error>;

    /// Frees memory.
    ///
    /// # Safety
    /// The contract of [`SynchronousResource::do_deallocate_sync`] or [`Resource::do_deallocate`].
    unsafe fn free_through<C: Calls>(&self, calls: &C, pointer: DevicePtr, layout: Layout);

    /// The adaptor's name, which [`SynchronousResource::name`] returns.
    fn adaptor_name(&self) -> &'static str;

    /// Answers what the upstream and its properties do not: as [`SynchronousResource::provide`].
    fn provide_more<'a>(&'a self, _: &mut Query<'a>) {}
}

/// The upstream of an adaptor during one allocation.
///
/// The lifetime `'b` brands this one call: it is invariant, and each call has its own. So a block
/// of another call does not type-check, and an adaptor can return only memory that its upstream
/// allocated in this call.
pub struct Upstream<'b, C> {
    calls: &'b C,
    brand: Brand<'b>,
}

/// Invariant in `'b`.
type Brand<'b> = PhantomData<fn(&'b ()) -> &'b ()>;

impl<'b, C: Calls> Upstream<'b, C> {
    /// Allocates memory of the upstream, on the stream of this call if it has one. A block that is
    /// dropped is freed.
    ///
    /// # Errors
    /// The errors of [`SynchronousResource::allocate_sync`].
    #[inline]
    pub fn allocate(&self, layout: Layout) -> Result<Block<'b, C>, Error> {
        let pointer = in_library(|| self.calls.allocate(layout))?;
        Ok(Block { calls: self.calls, pointer, layout, brand: PhantomData })
    }

    /// The stream of this call; `None` if it is synchronous.
    pub fn stream(&self) -> Option<StreamRef<'b>> {
        self.calls.stream()
    }
}

impl<C> fmt::Debug for Upstream<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").finish_non_exhaustive()
    }
}

/// Memory that the upstream allocated in one call of an adaptor.
#[must_use = "a block that is dropped is freed"]
pub struct Block<'b, C: Calls> {
    calls: &'b C,
    /// # Invariant
    /// Memory of `calls` with the layout below, which nothing else refers to.
    pointer: DevicePtr,
    layout: Layout,
    brand: Brand<'b>,
}

impl<C: Calls> Block<'_, C> {
    /// Where the memory starts.
    pub fn pointer(&self) -> DevicePtr {
        self.pointer
    }

    /// Its layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }
}

impl<C: Calls> Drop for Block<'_, C> {
    fn drop(&mut self) {
        // SAFETY: the field's invariant. `adapt` does not drop the blocks that it hands out, and no
        // other code has the right to use the memory.
        in_library(|| unsafe { self.calls.deallocate(self.pointer, self.layout) });
    }
}

impl<C: Calls> fmt::Debug for Block<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Block");
        fields.field("pointer", &self.pointer).field("layout", &self.layout);
        fields.finish_non_exhaustive()
    }
}

/// Runs the `allocate` of an author. Runs it again if what is below is out of memory, and others
/// have returned some: they are asked with no lock of the adaptor held.
///
/// # Errors
/// Those of `allocate`; [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if it
/// returns a block of another layout.
#[inline]
pub fn adapt<C: Calls>(
    name: &'static str,
    calls: &C,
    layout: Layout,
    allocate: impl for<'b> Fn(Upstream<'b, C>) -> Result<Block<'b, C>, Error>,
) -> Result<DevicePtr, Error> {
    allocate_in_program(calls.stream(), move || {
        let block = allocate(Upstream { calls, brand: PhantomData })?;
        if block.layout != layout {
            return Err(another_layout(name, layout));
        }
        // The caller owns the memory from here on.
        let block = ManuallyDrop::new(block);
        Ok(block.pointer)
    })
}

#[cold]
fn another_layout(name: &'static str, layout: Layout) -> Error {
    let message = "the adaptor returned a block of another layout than was asked for";
    Error::invalid_argument(name, message).with_layout(layout)
}

/// In an implementation of a resource trait, for a type whose clones are one resource: its
/// `to_any_sync` or `to_any`, a type-erased clone.
#[doc(hidden)]
#[macro_export]
macro_rules! __by_clone {
    (to_any_sync) => {
        $crate::__by_clone!(to_any_sync, AnySynchronousResource);
    };
    (to_any) => {
        $crate::__by_clone!(to_any, AnyResource);
    };
    ($name:ident, $any:ident) => {
        fn $name(&self) -> ::std::option::Option<$crate::$any<()>>
        where
            Self: 'static,
        {
            ::std::option::Option::Some($crate::$any::of(self))
        }
    };
}
