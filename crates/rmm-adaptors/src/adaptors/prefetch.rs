//! Prefetches managed memory on allocation.

use rmm_core::{
    Device, DevicePtr, Error, Introspect as _, MemoryKind, PrefetchTarget, StreamRef,
    SynchronousResource,
};

use super::layer::handle;
use super::observer::{Call, Observer};

handle! {
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

impl<U: SynchronousResource> PrefetchResourceAdaptor<U> {
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

impl Observer for Prefetch {
    const NAME: &'static str = "prefetch";

    #[inline]
    fn allocated(&self, pointer: DevicePtr, call: Call<'_>) -> Result<(), Error> {
        if !self.may_move {
            return Ok(());
        }
        let bytes = call.layout.size();
        match call.stream {
            Some(stream) => to_current_device(pointer, bytes, stream),
            None => to_current_device(pointer, bytes, StreamRef::legacy())
                .and_then(|()| StreamRef::legacy().synchronize()),
        }
    }
}
