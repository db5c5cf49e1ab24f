//! Pools that two processes share.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rmm_core::{DevicePtr, Error, StreamRef, check, current_driver, driver_in_context};
use rmm_sys::{CuMemHandleType, CuMemPool, CuMemPoolPtrExportData};

use super::DriverPool;
use crate::capability::driver_for_freeing;

impl DriverPool {
    /// A file descriptor that names the pool, to be sent to another process (`SCM_RIGHTS`), which
    /// gives it to [`ImportedPool::from_file_descriptor`].
    ///
    /// # Errors
    /// If the driver refuses, as it does where the pool was not made for it: see
    /// [`ExportHandleTypes`](crate::ExportHandleTypes).
    #[doc(alias = "cudaMemPoolExportToShareableHandle")]
    pub fn export_file_descriptor(&self) -> Result<OwnedFd, Error> {
        let driver = current_driver()?;
        let mut file: c_int = -1;
        let (place, kind) = ((&raw mut file).cast(), CuMemHandleType::POSIX_FILE_DESCRIPTOR);
        // SAFETY: the pool exists, and for this kind the pointer has to name a `c_int`, which it
        // does.
        let code = unsafe { driver.cuMemPoolExportToShareableHandle(place, self.handle, kind, 0) };
        check("cuMemPoolExportToShareableHandle", code)?;
        // SAFETY: the driver has opened the descriptor for the caller, who is to close it.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }

    /// What names a live allocation of the pool's to a process that has imported the pool: bytes to
    /// be sent, to [`ImportedPool::import_pointer`].
    ///
    /// # Errors
    /// If the driver refuses, as it does for an address that is no allocation of an exported pool.
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

/// A pool of another process. Nothing new can be allocated from it: it is a way to allocations that
/// the other process made.
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
    /// Opens the pool that a descriptor names. The descriptor may be closed afterwards.
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
        // SAFETY: `pool` may be written to; for this kind the handle is a number, not a pointer to
        // something.
        let code =
            unsafe { driver.cuMemPoolImportFromShareableHandle(&raw mut pool, handle, kind, 0) };
        check("cuMemPoolImportFromShareableHandle", code)?;
        Ok(Self(DriverPool::owned(pool, false)))
    }

    /// The pool, to let devices use it: at first, only the one that it is on may.
    pub fn pool(&self) -> &DriverPool {
        &self.0
    }

    /// The address in this process of an allocation that the other process has
    /// [named](DriverPool::export_pointer).
    ///
    /// It is memory until it is [released](Self::release), and before the other process frees it.
    ///
    /// # Errors
    /// If the driver refuses, as it does for many bytes that name nothing of the pool's, but not
    /// for all.
    ///
    /// # Safety
    /// The bytes are, unchanged, what [`export_pointer`](DriverPool::export_pointer) returned for a
    /// live allocation of the pool that this one was opened from. The driver trusts them: of
    /// altered ones, a driver of CUDA 13.0 has taken some for another address, and has crashed at
    /// others. So they should come from whom the program trusts.
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

    /// Ends this process's use of an allocation, in stream order. The other process must free it
    /// only afterwards.
    ///
    /// # Safety
    /// The address came from [`import_pointer`](Self::import_pointer) of this pool and is not
    /// released already; every use of it is ordered before this place on the stream.
    pub unsafe fn release<'s>(&self, stream: impl Into<StreamRef<'s>>, pointer: DevicePtr) {
        let stream = stream.into();
        if let Some(driver) = driver_for_freeing() {
            // SAFETY: the caller's contract.
            let _stays_open = unsafe { driver.cuMemFreeAsync(pointer, stream.as_raw()) };
        }
    }
}
