//! Sharing of pools between processes.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rmm_core::{DevicePtr, Error, StreamRef, check, current_driver, driver_in_context};
use rmm_sys::{CuMemHandleType, CuMemPool, CuMemPoolPtrExportData};

use super::DriverPool;
use crate::capability::driver_for_freeing;

impl DriverPool {
    /// Exports the pool as a file descriptor, to be sent to another process (`SCM_RIGHTS`), which
    /// passes it to [`ImportedPool::from_file_descriptor`].
    ///
    /// # Errors
    /// If the driver refuses, as it does if the pool was not created with this handle type: see
    /// [`ExportHandleTypes`](crate::ExportHandleTypes).
    #[doc(alias = "cudaMemPoolExportToShareableHandle")]
    pub fn export_file_descriptor(&self) -> Result<OwnedFd, Error> {
        let driver = current_driver()?;
        let mut file: c_int = -1;
        let (place, kind) = ((&raw mut file).cast(), CuMemHandleType::POSIX_FILE_DESCRIPTOR);
        // SAFETY: the pool exists, and for this handle type the pointer must be to a `c_int`, which
        // it is.
        let code = unsafe { driver.cuMemPoolExportToShareableHandle(place, self.handle, kind, 0) };
        check("cuMemPoolExportToShareableHandle", code)?;
        // SAFETY: the driver has opened the descriptor for the caller, who owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }

    /// Exports a live allocation of the pool to a process that has imported the pool: bytes to
    /// send, for [`ImportedPool::import_pointer`].
    ///
    /// # Errors
    /// If the driver refuses, as it does for an address that is not an allocation of an exportable
    /// pool.
    #[doc(alias = "cudaMemPoolExportPointer")]
    pub fn export_pointer(&self, pointer: DevicePtr) -> Result<CuMemPoolPtrExportData, Error> {
        let (driver, _) = driver_in_context()?;
        let mut data = CuMemPoolPtrExportData { reserved: [0; 64] };
        // SAFETY: `data` may be written to.
        let code = unsafe { driver.cuMemPoolExportPointer(&raw mut data, pointer) };
        check("cuMemPoolExportPointer", code)?;
        Ok(data)
    }
}

/// A pool imported from another process. It gives access to allocations of that process; new memory
/// cannot be allocated from it.
///
/// ```no_run
/// use std::os::fd::AsFd;
/// use rmm_resources::{CudaAsyncMemoryResource, ExportHandleTypes, ImportedPool};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// // In one process:
/// let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
/// let resource = CudaAsyncMemoryResource::builder().export_handle_types(types).build()?;
/// let file = resource.pool().export_file_descriptor()?;
/// // In another one, which was sent the descriptor:
/// let pool = ImportedPool::from_file_descriptor(file.as_fd())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ImportedPool(DriverPool);

impl ImportedPool {
    /// Imports the pool of a file descriptor. The descriptor may be closed afterwards.
    ///
    /// # Errors
    /// If the driver refuses, as it does for a descriptor of something else.
    #[doc(alias = "cudaMemPoolImportFromShareableHandle")]
    pub fn from_file_descriptor(file: BorrowedFd<'_>) -> Result<Self, Error> {
        let (driver, _) = driver_in_context()?;
        let number = usize::try_from(file.as_raw_fd()).map_err(|error| {
            Error::invalid_argument("ImportedPool", "no descriptor").with_source(error)
        })?;
        // The driver takes the number in place of a pointer.
        let handle: *mut c_void = std::ptr::without_provenance_mut(number);
        let (mut pool, kind) = (CuMemPool::NULL, CuMemHandleType::POSIX_FILE_DESCRIPTOR);
        // SAFETY: `pool` may be written to; for this handle type the handle is a number, not a
        // pointer.
        let code =
            unsafe { driver.cuMemPoolImportFromShareableHandle(&raw mut pool, handle, kind, 0) };
        check("cuMemPoolImportFromShareableHandle", code)?;
        Ok(Self(DriverPool::owned(pool, false)))
    }

    /// The pool, for granting access to devices: initially only its own device has access.
    pub fn pool(&self) -> &DriverPool {
        &self.0
    }

    /// Imports an allocation that the other process has [exported](DriverPool::export_pointer), and
    /// returns its address in this process.
    ///
    /// It is valid until it is [released](Self::release), which must precede the free in the other
    /// process.
    ///
    /// # Errors
    /// If the driver refuses, as it does for some invalid bytes, but not for all.
    ///
    /// # Safety
    /// The bytes are, unchanged, what [`export_pointer`](DriverPool::export_pointer) returned for a
    /// live allocation of the pool that this one was opened from. The driver trusts them: with
    /// altered bytes, a driver of CUDA 13.0 has returned another address or crashed. So they must
    /// come from a trusted source.
    #[doc(alias = "cudaMemPoolImportPointer")]
    pub unsafe fn import_pointer(
        &self,
        mut data: CuMemPoolPtrExportData,
    ) -> Result<DevicePtr, Error> {
        let (driver, _) = driver_in_context()?;
        let mut pointer = DevicePtr::NULL;
        // SAFETY: both may be written to, the pool exists, and by the caller's contract the bytes
        // name an allocation of it.
        let code = unsafe {
            driver.cuMemPoolImportPointer(&raw mut pointer, self.0.handle, &raw mut data)
        };
        check("cuMemPoolImportPointer", code)?;
        Ok(pointer)
    }

    /// Releases this process's mapping of an imported allocation, in stream order. The other
    /// process must free the allocation only afterwards.
    ///
    /// # Safety
    /// The address came from [`import_pointer`](Self::import_pointer) of this pool and is not
    /// released already; every use of it is ordered before this place on the stream.
    pub unsafe fn release<'s>(&self, stream: impl Into<StreamRef<'s>>, pointer: DevicePtr) {
        let stream = stream.into();
        if let Some(driver) = driver_for_freeing() {
            // SAFETY: the caller's contract. If the driver refuses, it stays open.
            let _ignored = unsafe { driver.cuMemFreeAsync(pointer, stream.as_raw()) };
        }
    }
}
