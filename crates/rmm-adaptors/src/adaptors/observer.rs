//! Observers: adaptors that are told of the calls to an upstream, and leave the memory to it.

use std::alloc::Layout;
use std::fmt::Debug;

use rmm_core::adaptor_support::Calls;
use rmm_core::{Description, DevicePtr, Error, Query, StreamRef};

use super::layer::Layer;
use crate::shared::site::Site;
use crate::shared::tracked::Caller;

/// A call as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) layout: Layout,
    /// The stream that the call is ordered on; `None` if it is synchronous.
    pub(crate) stream: Option<StreamRef<'a>>,
    /// Where the program made the call, if the observer asked; [`Site::NONE`] for a free.
    pub(crate) site: Site,
    /// The same as a stack, if the observer asked.
    pub(crate) caller: Option<&'a Caller>,
}

/// The layout with which upstream allocated a block, for a free that states another.
#[derive(Debug)]
pub(crate) struct AllocatedAs(Layout);

impl AllocatedAs {
    /// # Safety
    /// Upstream allocated the block that is being freed with this layout.
    pub(crate) unsafe fn new(layout: Layout) -> Self {
        Self(layout)
    }
}

/// What an observer does at the three events of a block. None of them runs under a lock of
/// upstream's.
pub(crate) trait Observer: Debug + Send + Sync {
    const NAME: &'static str;

    /// Where the calling thread is in the program, for observers that note it. Asked before
    /// upstream is called, which may let go of a lock of the program's language.
    #[inline]
    fn site(&self) -> Site {
        Site::NONE
    }

    /// Where the calling thread is, as a stack; asked when [`site`](Self::site) is.
    #[inline]
    fn caller(&self) -> Option<Caller> {
        None
    }

    /// Upstream has allocated a block. If the observer refuses it, it is freed, and the error goes
    /// to the caller.
    fn allocated(&self, pointer: DevicePtr, call: Call<'_>) -> Result<(), Error>;

    /// Upstream has refused a request. Returns the error for the caller.
    fn failed(&self, error: Error, _: Call<'_>) -> Error {
        error
    }

    /// A block is about to be freed: no other thread can have received its address yet. If the
    /// caller states a wrong layout, and the observer knows the right one, it returns that.
    fn freeing(&self, _: DevicePtr, _: Call<'_>) -> Option<AllocatedAs> {
        None
    }

    /// Adds the fields of the observer to a description of the resource.
    fn describe(&self, _: &mut Description) {}

    /// Answers queries that concern the observer.
    fn provide<'a>(&'a self, _: &mut Query<'a>) {}
}

// SAFETY: every block is upstream's, allocated with the layout of the request and freed with that
// of its allocation. One that the observer refuses is freed before any caller has it.
unsafe impl<O: Observer> Layer for O {
    const NAME: &'static str = O::NAME;

    #[inline]
    fn allocate(&self, upstream: &impl Calls, layout: Layout) -> Result<DevicePtr, Error> {
        let (site, caller) = (self.site(), self.caller());
        let allocated = upstream.allocate(layout);
        let call = Call { layout, stream: upstream.stream(), site, caller: caller.as_ref() };
        let pointer = allocated.map_err(|error| self.failed(error, call))?;
        if let Err(refused) = self.allocated(pointer, call) {
            // SAFETY: allocated above with this layout, in the same order, and not returned to any
            // caller.
            unsafe { upstream.deallocate(pointer, layout) };
            return Err(refused);
        }
        Ok(pointer)
    }

    #[inline]
    unsafe fn deallocate(&self, upstream: &impl Calls, pointer: DevicePtr, layout: Layout) {
        let stream = upstream.stream();
        let call = Call { layout, stream, site: Site::NONE, caller: None };
        let freeing = self.freeing(pointer, call);
        let layout = freeing.map_or(layout, |AllocatedAs(layout)| layout);
        // SAFETY: the caller's contract is the same; where its layout breaks it, this is the layout
        // of the allocation (the contract of `AllocatedAs`).
        unsafe { upstream.deallocate(pointer, layout) }
    }

    fn describe(&self, description: &mut Description) {
        Observer::describe(self, description);
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        Observer::provide(self, query);
    }
}
