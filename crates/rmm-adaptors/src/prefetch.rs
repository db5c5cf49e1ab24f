//! Managed memory that is where it will be used.

use std::alloc::Layout;

use rmm_core::{
    Description, Device, DevicePtr, Error, Introspect as _, MemoryKind, PrefetchTarget, StreamRef,
    SyncResource,
};

use crate::layer::{Below, Layer, adaptor};

adaptor! {
    /// Has every block moved to the current device, in the order of its stream, once it is
    /// allocated.
    ///
    /// This matters to managed memory alone; [`prefetch`](rmm_core::prefetch) says where else it
    /// does nothing. Over a resource that says that its memory is a device's own or pinned, and so
    /// never moves, no driver is asked; over any other, each allocation takes its calls. A block
    /// that cannot be moved is freed again, and the error returned. A synchronous call waits for
    /// the move.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PrefetchResourceAdaptor;
    /// use rmm_core::{CudaStream, Resource};
    /// use rmm_resources::ManagedMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let resource = PrefetchResourceAdaptor::new(ManagedMemoryResource::new());
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(1000, 256)?);
    /// let block = resource.allocate(&stream, layout)?; // on its way to the device
    /// # // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// # unsafe { resource.deallocate(&stream, block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::prefetch_resource_adaptor")]
    PrefetchResourceAdaptor(Prefetch)
}

#[derive(Debug)]
struct Prefetch {
    /// Whether the memory may be managed.
    may_move: bool,
}

impl<U: SyncResource> PrefetchResourceAdaptor<U> {
    /// Takes the resource in.
    pub fn new(upstream: U) -> Self {
        let kind = upstream.try_property::<MemoryKind>();
        let may_move = !matches!(kind, Some(MemoryKind::Device | MemoryKind::Pinned));
        Self::over(upstream, Prefetch { may_move })
    }
}

fn to_current_device(pointer: DevicePtr, bytes: usize, stream: StreamRef<'_>) -> Result<(), Error> {
    let target = PrefetchTarget::Device(Device::current()?);
    rmm_core::prefetch(pointer, bytes, target, stream)
}

// SAFETY: every call goes to the upstream as it is; that a block is moved changes nothing in it,
// and is over, in the block's order, before anybody uses it.
unsafe impl Layer for Prefetch {
    const NAME: &'static str = "prefetch";

    #[inline]
    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        let pointer = below.allocate(layout)?;
        if !self.may_move || layout.size() == 0 {
            return Ok(pointer);
        }
        let moved = match below.stream() {
            Some(stream) => to_current_device(pointer, layout.size(), stream),
            None => to_current_device(pointer, layout.size(), StreamRef::legacy())
                .and_then(|()| StreamRef::legacy().synchronize()),
        };
        match moved {
            Ok(()) => Ok(pointer),
            Err(error) => {
                // SAFETY: allocated above with this layout, in the same order, and nobody has it.
                unsafe { below.deallocate(pointer, layout) };
                Err(error)
            }
        }
    }

    #[inline]
    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { below.deallocate(pointer, layout) }
    }

    fn tell(&self, _: &mut Description) {}
}
