//! Capabilities of devices.

use std::sync::{Mutex, MutexGuard};

use rmm_sys::{CuDeviceAttribute, CuMemHandleType, CuResult, CuUuid};

use crate::{Device, Error, fork};

/// What a device supports in memory management, see [`Device::capabilities`]. Queried once per
/// device and process.
///
/// ```
/// use rmm_core::{Device, ErrorKind};
///
/// # let _machine = rmm_sim::enter();
/// let capabilities = Device::current()?.capabilities()?;
/// assert!(capabilities.compute_capability >= (1, 0));
/// if !capabilities.memory_pools {
///     // Then `CudaAsyncMemoryResource::new` fails with this kind of error:
///     let _kind = ErrorKind::Unsupported;
/// }
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "runtime_capabilities")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
pub struct Capabilities {
    /// Major and minor number, such as (9, 0).
    pub compute_capability: (i32, i32),
    /// Whether the device shares its memory with the host.
    pub integrated: bool,
    /// Stream-ordered memory pools.
    #[doc(alias = "cudaDevAttrMemoryPoolsSupported")]
    pub memory_pools: bool,
    /// Bit mask of the handle types that a pool can be exported as; 0 without pools.
    #[doc(alias = "cudaDevAttrMemoryPoolSupportedHandleTypes")]
    pub pool_handle_types: CuMemHandleType,
    /// Pools of pinned host memory.
    pub host_memory_pools: bool,
    /// Virtual memory management.
    pub virtual_memory: bool,
    /// Managed memory.
    pub managed_memory: bool,
    /// Managed memory that host and device may use at the same time, and that can be prefetched.
    #[doc(alias = "cudaDevAttrConcurrentManagedAccess")]
    pub concurrent_managed_access: bool,
    /// The device can access pageable host memory (HMM or ATS).
    #[doc(alias = "cudaDevAttrPageableMemoryAccess")]
    pub pageable_memory_access: bool,
    /// The device accesses pageable host memory through the host's page tables (ATS).
    pub host_page_tables: bool,
    /// Events can be shared with other processes.
    pub ipc_events: bool,
    /// An engine that decompresses.
    pub decompression: bool,
}

/// The devices queried so far: a handful at most.
static KNOWN: Mutex<Vec<(CuUuid, Capabilities)>> = Mutex::new(Vec::new());

impl Device {
    /// The device's capabilities. What an old driver does not know counts as unsupported. The first
    /// call for a device queries a dozen attributes, later ones only the device's UUID.
    ///
    /// ```
    /// # let _machine = rmm_sim::enter();
    /// let capabilities = rmm_core::Device::current()?.capabilities()?;
    /// assert!(capabilities.memory_pools);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the driver refuses. A failure is not cached: the next call tries again.
    #[doc(alias = "cudaDeviceGetAttribute")]
    pub fn capabilities(self) -> Result<Capabilities, Error> {
        // By UUID, since an ordinal is another device in another set of devices.
        let uuid = self.uuid()?;
        if let Some(known) = find(&lock(), uuid) {
            return Ok(known);
        }
        // Queried without the lock: a thread waits for the driver only if it needs the answer.
        let asked = Capabilities::ask(self)?;
        let mut known = lock();
        if find(&known, uuid).is_none() {
            known.push((uuid, asked));
        }
        Ok(asked)
    }
}

fn lock() -> MutexGuard<'static, Vec<(CuUuid, Capabilities)>> {
    fork::lock(&KNOWN)
}

fn find(known: &[(CuUuid, Capabilities)], uuid: CuUuid) -> Option<Capabilities> {
    known.iter().find(|(other, _)| *other == uuid).map(|(_, capabilities)| *capabilities)
}

impl Capabilities {
    fn ask(device: Device) -> Result<Self, Error> {
        use CuDeviceAttribute as A;
        let number = |attribute| match device.attribute(attribute) {
            Err(error) if error.code() == Some(CuResult::INVALID_VALUE) => Ok(0),
            answer => answer,
        };
        let has = |attribute| number(attribute).map(|value| value != 0);
        Ok(Self {
            compute_capability: (
                number(A::COMPUTE_CAPABILITY_MAJOR)?,
                number(A::COMPUTE_CAPABILITY_MINOR)?,
            ),
            integrated: has(A::INTEGRATED)?,
            memory_pools: has(A::MEMORY_POOLS_SUPPORTED)?,
            pool_handle_types: CuMemHandleType(
                number(A::MEMPOOL_SUPPORTED_HANDLE_TYPES)?.cast_unsigned(),
            ),
            host_memory_pools: has(A::HOST_MEMORY_POOLS_SUPPORTED)?,
            virtual_memory: has(A::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)?,
            managed_memory: has(A::MANAGED_MEMORY)?,
            concurrent_managed_access: has(A::CONCURRENT_MANAGED_ACCESS)?,
            pageable_memory_access: has(A::PAGEABLE_MEMORY_ACCESS)?,
            host_page_tables: has(A::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)?,
            ipc_events: has(A::IPC_EVENT_SUPPORTED)?,
            decompression: has(A::MEM_DECOMPRESS_ALGORITHM_MASK)?,
        })
    }
}
