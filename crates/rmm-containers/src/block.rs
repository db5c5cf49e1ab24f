//! One allocation in device memory, and who uses it.

use std::alloc::Layout;

use rmm_core::sys::CuResult;
use rmm_core::{
    AnyResource, Context, CudaStream, DevicePtr, Error, Resource as _, StreamKind, StreamRef,
    process_is_exiting,
};

use crate::order::Order;

/// Memory from a resource, which goes back there when it is dropped: in the order of its home stream, which waits for the uses on all
/// others. The context of its making is made current for that.
#[derive(Debug)]
pub(crate) struct Block {
    /// # Invariant
    /// Memory of this layout from `resource`, usable in the order of the home stream of `order`; null if it has no bytes.
    pointer: DevicePtr,
    layout: Layout,
    resource: AnyResource,
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
        // At the end of the process the system takes everything back, and the driver may be gone.
        if self.layout.size() == 0 || process_is_exiting() {
            return;
        }
        let entered = self.order.context().enter();
        let is_ordered = match &entered {
            // If the driver is gone there is nothing to wait for or to free. Otherwise an address and a stream's handle say themselves
            // where they belong.
            Err(error) => !is_gone(error) && !self.needs_context() && self.order.settle_anyhow(),
            Ok(_) => self.order.settle_anyhow(),
        };
        if !is_ordered {
            // The memory had better be lost than be given to somebody else.
            return;
        }
        let stream = self.stream().as_ref();
        // SAFETY: the memory came from this resource with this layout. Its uses are ordered before this place on its home stream.
        unsafe { self.resource.deallocate(stream, self.pointer, self.layout) };
    }
}
