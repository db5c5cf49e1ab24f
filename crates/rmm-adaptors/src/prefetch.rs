//! Prefetches managed memory on allocation.

use std::alloc::Layout;

use rmm_core::{
    Description, Device, DevicePtr, Error, Introspect as _, MemoryKind, PrefetchTarget, StreamRef,
    SyncResource,
};

use crate::layer::{Layer, Upstream, adaptor};

adaptor! {
    /// Prefetches every new block to the current device, in the order of its stream.
    ///
    /// This only affects managed memory; [`prefetch`](rmm_core::prefetch) says where else it does
    /// nothing. Over a resource whose memory is device memory or pinned, and so never migrates, no
    /// driver call is made; over any other, each allocation makes the calls of a prefetch. If a
    /// block cannot be prefetched, it is freed and the error is returned. A synchronous call waits
    /// for the prefetch.
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
    /// Prefetches the blocks of `upstream`.
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

// SAFETY: every call goes to the upstream unchanged. A prefetch does not change the contents of a
// block, and completes, in the order of the block's stream, before any use.
unsafe impl Layer for Prefetch {
    const NAME: &'static str = "prefetch";

    #[inline]
    fn allocate(&self, upstream: impl Upstream, layout: Layout) -> Result<DevicePtr, Error> {
        let pointer = upstream.allocate(layout)?;
        if !self.may_move {
            return Ok(pointer);
        }
        let moved = match upstream.stream() {
            Some(stream) => to_current_device(pointer, layout.size(), stream),
            None => to_current_device(pointer, layout.size(), StreamRef::legacy())
                .and_then(|()| StreamRef::legacy().synchronize()),
        };
        match moved {
            Ok(()) => Ok(pointer),
            Err(error) => {
                // SAFETY: allocated above with this layout, in the same order, and not returned to
                // any caller.
                unsafe { upstream.deallocate(pointer, layout) };
                Err(error)
            }
        }
    }

    #[inline]
    unsafe fn deallocate(&self, upstream: impl Upstream, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { upstream.deallocate(pointer, layout) }
    }

    fn describe(&self, _: &mut Description) {}
}
