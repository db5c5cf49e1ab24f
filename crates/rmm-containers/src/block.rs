//! One allocation of device memory, with its resource and its uses.

use std::alloc::Layout;
use std::mem::ManuallyDrop;

use rmm_core::known_contexts::wait_for_all_contexts;
use rmm_core::sys::CuResult;
use rmm_core::{
    Annotator, AnyResource, Context, CudaStream, DevicePtr, Error, Introspect as _, Resource as _,
    StreamKind, StreamRef, SynchronousResource, process_is_exiting,
};
use rmm_resources::per_device_resource;

use crate::foreign::ForeignMemory;
use crate::use_tracker::UseTracker;

/// The current resource of the stream's device.
pub(crate) fn resource_for(stream: StreamRef<'_>) -> Result<AnyResource, Error> {
    per_device_resource(stream.device()?)
}

/// Device memory from a resource. Dropping it frees the memory in the order of its owning stream,
/// which first waits for the uses on all other streams, with the context that it was allocated in
/// current.
#[derive(Debug)]
pub(crate) struct Block {
    /// # Invariant
    /// Memory of this layout from `resource`, allocated in the order of the owning stream; null if
    /// the size is 0.
    pointer: DevicePtr,
    layout: Layout,
    /// Dropped when the memory is freed, and leaked if the memory is leaked: dropping the last
    /// handle to a suballocator returns all its memory, under work that still uses it.
    resource: ManuallyDrop<AnyResource>,
    /// # Invariant
    /// It has an owner.
    tracker: UseTracker,
}

impl Block {
    /// Allocates in the order of `stream`. The context is current.
    pub(crate) fn allocate(
        layout: Layout,
        stream: StreamRef<'_>,
        resource: AnyResource,
        context: Context,
    ) -> Result<Self, Error> {
        check_serves(stream, &resource, context)?;
        let pointer = resource.allocate(stream, layout)?;
        // SAFETY: the memory came from the resource just now, with this layout, on this stream.
        Ok(unsafe { Self::adopt(pointer, layout, stream, resource, context) })
    }

    /// Takes over memory that was allocated before.
    ///
    /// # Safety
    /// 1. The memory is of this layout, from a resource equal to this one, in this context; it is
    ///    not freed, and nothing else frees it. Null if the size is 0.
    /// 2. All work on it is complete, or ordered before the work enqueued on `stream` next.
    pub(crate) unsafe fn adopt(
        pointer: DevicePtr,
        layout: Layout,
        stream: StreamRef<'_>,
        resource: AnyResource,
        context: Context,
    ) -> Self {
        let resource = ManuallyDrop::new(resource);
        let tracker = UseTracker::bound_to(stream, context);
        Self { pointer, layout, resource, tracker }
    }

    /// Gives up the memory without freeing it. Uses on other streams are no longer tracked.
    pub(crate) fn into_resource(self) -> AnyResource {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the block is not dropped, and its resource is taken once.
        let resource = unsafe { ManuallyDrop::take(&mut this.resource) };
        // SAFETY: the block is not dropped, and the tracker is dropped once.
        unsafe { std::ptr::drop_in_place(&raw mut this.tracker) };
        resource
    }

    /// The resource that new memory in place of this, or beside it, is allocated from. Memory of
    /// another library moves to the current resource of the device.
    pub(crate) fn resource_of_new(&self) -> Result<AnyResource, Error> {
        if self.resource.downcast_ref::<ForeignMemory>().is_some() {
            return resource_for(self.stream().into());
        }
        Ok(AnyResource::clone(&self.resource))
    }

    pub(crate) fn pointer(&self) -> DevicePtr {
        self.pointer
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn resource(&self) -> &AnyResource {
        &self.resource
    }

    pub(crate) fn tracker(&self) -> &UseTracker {
        &self.tracker
    }

    /// Names the memory, for messages and for a checker's reports.
    pub(crate) fn set_name(&mut self, name: Box<str>) {
        Annotator::name_memory(self.pointer, self.layout.size(), Some(&name));
        self.tracker.set_name(name);
    }

    pub(crate) fn tracker_mut(&mut self) -> &mut UseTracker {
        &mut self.tracker
    }

    /// The owning stream, on which the memory is freed.
    pub(crate) fn stream(&self) -> &CudaStream {
        self.tracker.owner().expect("the tracker of a block has an owner")
    }

    /// Frees the memory, for `Drop`, which has ordered all uses before.
    fn free(&mut self) {
        let stream = StreamRef::from(self.stream());
        // SAFETY: 1. the memory came from this resource with this layout. 2. Its uses are ordered
        // before this point on the owning stream, or are complete. 3. `drop` alone calls this,
        // once.
        unsafe { self.resource.deallocate(stream, self.pointer, self.layout) };
        if self.tracker.name().is_some() {
            Annotator::name_memory(self.pointer, self.layout.size(), None);
        }
    }

    /// Whether the owning stream exists, given that the context of the memory does. A stream of
    /// another device may have ended with its own context, and its waits with it: nothing is
    /// ordered on it any more.
    fn owner_exists(&self) -> bool {
        let elsewhere = self.stream().own_context().filter(|&its| its != self.tracker.context());
        elsewhere.is_none_or(|context| context.check().is_ok())
    }

    /// Whether the owning stream's handle denotes another stream in another context.
    fn needs_context(&self) -> bool {
        matches!(self.stream().kind(), StreamKind::Legacy | StreamKind::PerThread)
    }
}

/// If `stream` is a default stream: checks that those which the resource serves are of this
/// context. Their handles denote other streams in each context, and a suballocator takes them for
/// those of its own without a driver call.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if not.
pub(crate) fn check_serves(
    stream: StreamRef<'_>,
    resource: &AnyResource,
    context: Context,
) -> Result<(), Error> {
    if !matches!(stream.kind(), StreamKind::Legacy | StreamKind::PerThread) {
        return Ok(());
    }
    let mut next: Option<&(dyn SynchronousResource + 'static)> = Some(resource);
    while let Some(resource) = next {
        if let Some(its) = resource.try_value::<Context>() {
            let other = "the default stream of this device does not order memory of another's";
            return if its == context {
                Ok(())
            } else {
                its.check()?;
                Err(Error::invalid_argument("container", other))
            };
        }
        next = resource.upstream_resource();
    }
    Ok(())
}

/// Whether there is no driver, or it has shut down.
fn is_gone(error: &Error) -> bool {
    error.is_driver_unavailable() || error.code() == Some(CuResult::DEINITIALIZED)
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // At process exit the system frees all memory, and the driver may have shut down.
            let entered = (!process_is_exiting()).then(|| self.tracker.context().enter());
            let is_ordered = match &entered {
                None => false,
                // The context was reset, which ended all work in it, and all waits for work of
                // other contexts. Base resources recognize that by the stream, if it belongs to
                // that context too, and do not free an address that may belong to another
                // allocation by now; suballocators recognize it themselves.
                Some(Err(error)) if error.code() == Some(CuResult::CONTEXT_IS_DESTROYED) => {
                    if wait_for_all_contexts().is_err() {
                        return;
                    }
                    if self.stream().own_context() == Some(self.tracker.context()) {
                        self.free();
                    }
                    // SAFETY: dropped once on each path, and not used afterwards.
                    unsafe { ManuallyDrop::drop(&mut self.resource) };
                    return;
                }
                // If the driver has shut down there is nothing to wait for or to free. Otherwise
                // the address and the stream's handle identify their context.
                Some(Err(error)) => {
                    !is_gone(error) && !self.needs_context() && self.tracker.block_host()
                }
                Some(Ok(_)) => self.owner_exists() && self.tracker.join_or_block(),
            };
            if !is_ordered {
                // Work may still use the memory: leak it, and its resource with it, see `resource`.
                return;
            }
            self.free();
        }
        // SAFETY: dropped once on each path, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.resource) };
    }
}
