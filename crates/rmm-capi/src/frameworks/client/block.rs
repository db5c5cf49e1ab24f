//! A client, and a block that it has allocated.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rmm_core::sys::CuStream;
use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Error, Resource as _, StreamId, StreamRef,
    SynchronousResource as _,
};

use super::counts::{BlockSize, Counts};
use super::pending::{Pending, RecordedStream};
use crate::calls::allocate::layout;
use crate::frameworks::device::Device;
use crate::handle::failure::Failure;
use crate::handle::resource::ResourceHandle;

/// A client. What C has is a counted reference to one; its blocks have others.
#[derive(Debug)]
pub struct ClientHandle {
    pub(crate) device: &'static Device,
    /// The resource of requests that name none. `None` for the device's current one.
    pub(crate) own: Option<Arc<ResourceHandle>>,
    pub(crate) counts: Counts,
    pub(crate) pending: Pending,
    /// The bits of the memory fraction.
    fraction: AtomicU64,
    /// References that C has.
    pub(crate) references: AtomicUsize,
}

impl ClientHandle {
    /// A client to which C has one reference.
    pub(crate) fn new(device: &'static Device, own: Option<Arc<ResourceHandle>>) -> Self {
        Self {
            device,
            own,
            counts: Counts::new(),
            pending: Pending::default(),
            fraction: AtomicU64::new(1_f64.to_bits()),
            references: AtomicUsize::new(1),
        }
    }

    /// Limits the allocated bytes to a fraction of the device's memory.
    ///
    /// # Errors
    /// If it is not a number from 0 to 1, or the driver refuses to say how much memory there is.
    pub(crate) fn set_memory_fraction(&self, fraction: f64) -> Result<(), Failure> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Failure::invalid(format!(
                "{fraction} is no fraction of a device's memory"
            )));
        }
        let total = self.device.total_memory()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a fraction of a number below 2^53, rounded down"
        )]
        let bytes = (total as f64 * fraction) as u64;
        self.counts.limit_to(bytes);
        self.fraction.store(fraction.to_bits(), Ordering::Relaxed);
        Ok(())
    }

    /// The fraction that was set last, or 1.
    pub(crate) fn memory_fraction(&self) -> f64 {
        f64::from_bits(self.fraction.load(Ordering::Relaxed))
    }
}

/// Where a block comes from, and goes back to.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The client's own resource.
    Own,
    /// A resource that the request named.
    Pool(Arc<ResourceHandle>),
    /// The resource that was the device's current one.
    Current(AnyResource<()>),
}

impl Source {
    /// Where a request of a client goes.
    ///
    /// # Errors
    /// If the device has no current resource, and none can be made.
    #[inline]
    pub(crate) fn of_request(
        client: &ClientHandle,
        pool: Option<Arc<ResourceHandle>>,
    ) -> Result<Self, Failure> {
        Ok(match pool {
            Some(pool) => Self::Pool(pool),
            None if client.own.is_some() => Self::Own,
            None => Self::Current(client.device.resource()?),
        })
    }

    /// The resource of C, if it is one.
    #[inline]
    fn handle<'a>(
        &'a self,
        client: &'a ClientHandle,
    ) -> Result<&'a ResourceHandle, &'a AnyResource<()>> {
        match self {
            Self::Own => match &client.own {
                Some(own) => Ok(own),
                None => unreachable!("`of_request` makes it for clients with a resource only"),
            },
            Self::Pool(pool) => Ok(pool),
            Self::Current(any) => Err(any),
        }
    }

    /// The type-erased resource.
    pub(crate) fn any<'a>(&'a self, client: &'a ClientHandle) -> &'a AnyResource<()> {
        match self.handle(client) {
            Ok(handle) => &handle.any,
            Err(any) => any,
        }
    }

    /// # Errors
    /// Those of the resource.
    #[inline]
    pub(crate) fn allocate(
        &self,
        client: &ClientHandle,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        match self.handle(client) {
            Ok(handle) => handle.allocate(stream, layout),
            Err(any) => any.allocate(stream, layout),
        }
    }

    /// # Safety
    /// As for [`rmm_core::Resource::deallocate`].
    #[inline]
    unsafe fn deallocate(
        &self,
        client: &ClientHandle,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        match self.handle(client) {
            // SAFETY: the caller's contract is the same.
            Ok(handle) => unsafe { handle.deallocate(stream, pointer, layout) },
            // SAFETY: the caller's contract is the same.
            Err(any) => unsafe { any.deallocate(stream, pointer, layout) },
        }
    }
}

/// A block that a client has allocated, in the table under its address.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) client: Arc<ClientHandle>,
    pub(crate) source: Source,
    pub(crate) size: BlockSize,
    pub(crate) stream: CuStream,
    /// The stream that the handle named; `None` for memory that was allocated on no stream.
    pub(crate) stream_id: Option<StreamId>,
    /// The streams that use it and were recorded.
    pub(crate) recorded: Vec<RecordedStream>,
    /// Whether it was freed, and is pending.
    pub(crate) is_pending: bool,
}

impl Block {
    /// The layout of its allocation.
    ///
    /// # Errors
    /// None: it was allocated with it.
    fn layout(&self) -> Result<Layout, Failure> {
        layout(self.size.requested, CUDA_ALLOCATION_ALIGNMENT)
    }

    /// Whether other streams than its own were recorded, and it was not freed.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.iter().any(|stream| Some(stream.id) != self.stream_id)
    }

    /// Counts that it goes back to its resource.
    pub(crate) fn count_return(&self) {
        if self.is_pending {
            self.client.counts.release(self.size);
        } else {
            self.client.counts.free(self.size);
        }
    }

    /// Gives the memory back in the order of a stream.
    ///
    /// # Safety
    /// The block left the table, its address is `pointer`, and its uses come before in the order of
    /// the stream. The block's device is current.
    #[inline]
    pub(crate) unsafe fn deallocate(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
    ) -> Result<(), Failure> {
        let layout = self.layout()?;
        // Before the memory is another request's.
        self.count_return();
        // SAFETY: 1. It was allocated from this source with this layout, and left the table, so it
        // is freed once. 2. The caller's contract for its uses.
        unsafe { self.source.deallocate(&self.client, stream, pointer, layout) };
        Ok(())
    }

    /// Gives the memory back at once.
    ///
    /// # Safety
    /// The block left the table, its address is `pointer`, and its uses are complete. The block's
    /// device is current.
    pub(crate) unsafe fn deallocate_sync(&self, pointer: DevicePtr) -> Result<(), Failure> {
        self.count_return();
        // SAFETY: the caller's contract.
        unsafe { self.return_sync(pointer) }
    }

    /// Gives the memory of a block back at once whose return was counted.
    ///
    /// # Safety
    /// As for [`deallocate_sync`](Self::deallocate_sync).
    pub(crate) unsafe fn return_sync(&self, pointer: DevicePtr) -> Result<(), Failure> {
        let layout = self.layout()?;
        let any = self.source.any(&self.client);
        // SAFETY: 1. It was allocated from this source with this layout, and left the table, so it
        // is freed once. 2. The caller's contract for its uses.
        unsafe { any.deallocate_sync(pointer, layout) };
        Ok(())
    }
}
