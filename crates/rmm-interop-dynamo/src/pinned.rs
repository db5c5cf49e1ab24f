//! Pinned host memory.

use std::any::Any;
use std::fmt;

use dynamo_memory::nixl::{MemType, NixlCompatible, NixlDescriptor};
use dynamo_memory::{MemoryDescriptor, StorageKind};
use rmm_containers::HostVec;
use rmm_core::{
    DeviceAccessible, Error, HasProperty, HostAccessible, Introspect as _, MemoryKind,
    SynchronousResource,
};

/// A vector of bytes in pinned host memory as storage of Dynamo: a
/// [`PinnedVec`](rmm_containers::PinnedVec), or one over a pool of such memory.
///
/// ```
/// use rmm_containers::{ManagedVec, PinnedVec};
/// use rmm_interop_dynamo::PinnedStorage;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let storage = PinnedStorage::new(PinnedVec::<u8>::zeroed(4096)?)?;
/// let other = PinnedStorage::new(ManagedVec::<u8>::zeroed(4096)?); // managed memory
/// assert!(other.is_err_and(|error| error.is_invalid_argument()));
/// # drop(storage);
/// # Ok(())
/// # }
/// ```
pub struct PinnedStorage<R>
where
    R: SynchronousResource + HasProperty<HostAccessible>,
{
    vector: HostVec<u8, R>,
    address: usize,
    len: usize,
}

impl<R> PinnedStorage<R>
where
    R: SynchronousResource + HasProperty<HostAccessible> + HasProperty<DeviceAccessible>,
{
    /// The vector's memory, after a wait of the host for all work on it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for an empty vector,
    /// and if the resource does not say that its memory is pinned; what the driver reports of the
    /// wait. The vector is dropped then.
    pub fn new(mut vector: HostVec<u8, R>) -> Result<Self, Error> {
        let kind = vector.resource().try_property::<MemoryKind>();
        if kind != Some(MemoryKind::Pinned) {
            let message = format!("the vector is in memory of kind {kind:?}, not in pinned memory");
            return Err(Error::invalid_argument("PinnedStorage", message));
        }
        if vector.is_empty() {
            return Err(Error::invalid_argument("PinnedStorage", "an empty vector is no storage"));
        }
        let bytes = vector.as_mut_slice()?;
        let (address, len) = (bytes.as_mut_ptr().expose_provenance(), bytes.len());
        Ok(Self { vector, address, len })
    }
}

impl<R> PinnedStorage<R>
where
    R: SynchronousResource + HasProperty<HostAccessible>,
{
    /// The vector. Transfers must have ended.
    pub fn into_vec(self) -> HostVec<u8, R> {
        self.vector
    }
}

impl<R> MemoryDescriptor for PinnedStorage<R>
where
    R: SynchronousResource + HasProperty<HostAccessible> + Send + Sync + 'static,
{
    fn addr(&self) -> usize {
        self.address
    }

    fn size(&self) -> usize {
        self.len
    }

    fn storage_kind(&self) -> StorageKind {
        StorageKind::Pinned
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// None: it is not registered. `NixlRegistered` over it has one.
    fn nixl_descriptor(&self) -> Option<NixlDescriptor> {
        None
    }
}

impl<R> NixlCompatible for PinnedStorage<R>
where
    R: SynchronousResource + HasProperty<HostAccessible>,
{
    fn nixl_params(&self) -> (*const u8, usize, MemType, u64) {
        let address = std::ptr::with_exposed_provenance(self.address);
        (address, self.len, MemType::Dram, 0)
    }
}

impl<R> fmt::Debug for PinnedStorage<R>
where
    R: SynchronousResource + HasProperty<HostAccessible>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedStorage")
            .field("address", &self.address)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
