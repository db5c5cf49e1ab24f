//! One allocation in device memory, and who uses it.

use std::alloc::Layout;
use std::mem::ManuallyDrop;

use rmm_core::sys::CuResult;
use rmm_core::{
    AnyResource, Context, CudaStream, DevicePtr, Error, Resource as _, StreamKind, StreamRef,
    process_is_exiting,
};
use rmm_resources::per_device_resource;

use crate::order::Order;

/// The current resource of the stream's device.
pub(crate) fn resource_for(stream: StreamRef<'_>) -> Result<AnyResource, Error> {
    per_device_resource(stream.device()?)
}

/// Memory from a resource, which goes back there when it is dropped: in the order of its home
/// stream, which waits for the uses on all others. The context of its making is made current for
/// that.
#[derive(Debug)]
pub(crate) struct Block {
    /// # Invariant
    /// Memory of this layout from `resource`, usable in the order of the home stream of `order`;
    /// null if it has no bytes.
    pointer: DevicePtr,
    layout: Layout,
    /// Dropped when the memory is freed, and never if the memory is lost: the last handle to a
    /// suballocator ends it, and its end would give the memory back under the work that still uses
    /// it.
    resource: ManuallyDrop<AnyResource>,
    /// # Invariant
    /// It has a home.
    order: Order,
}

impl Block {
    /// Allocates on the stream; the context is current.
    pub(crate) fn allocate(
        layout: Layout,
        stream: StreamRef<'_>,
        resource: AnyResource,
        context: Context,
    ) -> Result<Self, Error> {
        let pointer = resource.allocate(stream, layout)?;
        let resource = ManuallyDrop::new(resource);
        Ok(Self { pointer, layout, resource, order: Order::at_home_on(stream, context) })
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

    pub(crate) fn order(&self) -> &Order {
        &self.order
    }

    pub(crate) fn order_mut(&mut self) -> &mut Order {
        &mut self.order
    }

    /// The stream that the memory is freed on.
    ///
    /// # Panics
    /// Never: there is one.
    pub(crate) fn stream(&self) -> &CudaStream {
        self.order.home().expect("the order of a block has a home")
    }

    /// Frees the memory, for `Drop`, which orders its uses before.
    fn free(&mut self) {
        let stream = self.stream().as_ref();
        // SAFETY: the memory came from this resource with this layout. Its uses are ordered before
        // this place on its home stream, or are over; `drop` alone calls this, once.
        unsafe { self.resource.deallocate(stream, self.pointer, self.layout) };
    }

    /// Whether the home stream exists, for all that the context of the memory does. One of another
    /// device may have ended with its own context, and with it the waits for those who use the
    /// memory: it is in order with nothing.
    fn home_exists(&self) -> bool {
        let elsewhere = self.stream().context().filter(|&its| its != self.order.context());
        elsewhere.is_none_or(|context| context.check().is_ok())
    }

    /// Whether the home stream means another one in another context.
    fn needs_context(&self) -> bool {
        matches!(self.stream().kind(), StreamKind::Legacy | StreamKind::PerThread)
    }
}

/// Whether there is no driver, or none any more.
fn is_gone(error: &Error) -> bool {
    error.is_driver_unavailable() || error.code() == Some(CuResult::DEINITIALIZED)
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // At the end of the process the system takes everything back, and the driver may be
            // gone.
            let entered = (!process_is_exiting()).then(|| self.order.context().enter());
            let is_ordered = match &entered {
                None => false,
                // The context was reset, and all work with it. Base resources know that by the
                // stream, if it was of that context too, and leave an address alone that may be
                // another's by now; suballocators know by themselves.
                Some(Err(error)) if error.is_context_lost() && !is_gone(error) => {
                    if self.stream().context() == Some(self.order.context()) {
                        self.free();
                    }
                    // SAFETY: it is dropped here only, and not used any more.
                    unsafe { ManuallyDrop::drop(&mut self.resource) };
                    return;
                }
                // If the driver is gone there is nothing to wait for or to free. Otherwise an
                // address and a stream's handle say themselves where they belong.
                Some(Err(error)) => {
                    !is_gone(error) && !self.needs_context() && self.order.settle_on_host()
                }
                Some(Ok(_)) => self.home_exists() && self.order.settle_anyhow(),
            };
            if !is_ordered {
                // The memory had better be lost than be given to somebody else, and its resource
                // with it: see `resource`.
                return;
            }
            self.free();
        }
        // SAFETY: it is dropped here only, and not used any more.
        unsafe { ManuallyDrop::drop(&mut self.resource) };
    }
}
