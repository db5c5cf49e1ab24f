//! Access of devices to a pool.

use rmm_core::{Device, Error, check};
use rmm_sys::{CuMemAccessDesc, CuMemAccessFlags};

use super::{DriverPool, on_device};
use crate::capability::calls_for;

impl DriverPool {
    /// The access that a device was granted to all memory of the pool, now and later. Every device
    /// may access managed memory without a grant, so the driver reports `NONE` for a pool of it.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolGetAccess")]
    #[doc(alias = "is_accessible_from")]
    pub fn access(&self, device: Device) -> Result<CuMemAccessFlags, Error> {
        let driver = calls_for(None)?;
        let mut flags = CuMemAccessFlags::NONE;
        let mut location = on_device(device);
        // SAFETY: both may be written to, and the pool exists.
        let code =
            unsafe { driver.cuMemPoolGetAccess(&raw mut flags, self.handle, &raw mut location) };
        check("cuMemPoolGetAccess", code)?;
        Ok(flags)
    }

    /// Grants devices read and write access to the pool's memory, both allocated and future. The
    /// pool's own device has access from the start.
    ///
    /// ```
    /// use rmm_core::Device;
    /// use rmm_resources::CudaAsyncMemoryResource;
    /// use rmm_sys::CuMemAccessFlags;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
    /// let resource = CudaAsyncMemoryResource::new()?;
    /// let other = Device::new(1)?;
    /// assert_eq!(resource.pool().access(other)?, CuMemAccessFlags::NONE);
    /// resource.pool().grant_access(&[other])?;
    /// assert_eq!(resource.pool().access(other)?, CuMemAccessFlags::READ_WRITE);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the driver refuses because one of the devices is not a peer of the pool's device.
    #[doc(alias = "cudaMemPoolSetAccess")]
    #[doc(alias = "enable_access_from")]
    pub fn grant_access(&self, devices: &[Device]) -> Result<(), Error> {
        self.set_access(devices, CuMemAccessFlags::READ_WRITE)
    }

    /// Revokes the access of devices to the pool.
    ///
    /// ```
    /// use rmm_core::Device;
    /// use rmm_resources::CudaAsyncMemoryResource;
    /// use rmm_sys::CuMemAccessFlags;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
    /// let (resource, other) = (CudaAsyncMemoryResource::new()?, Device::new(1)?);
    /// resource.pool().grant_access(&[other])?;
    /// // SAFETY: no work uses the pool.
    /// unsafe { resource.pool().revoke_access(&[other]) }?;
    /// assert_eq!(resource.pool().access(other)?, CuMemAccessFlags::NONE);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the driver refuses, as it does for the pool's own device.
    ///
    /// # Safety
    /// No work on these devices uses memory of the pool from now on, not even through a resource
    /// that declares its memory [device-accessible](rmm_core::DeviceAccessible).
    #[doc(alias = "cudaMemPoolSetAccess")]
    #[doc(alias = "disable_access_from")]
    pub unsafe fn revoke_access(&self, devices: &[Device]) -> Result<(), Error> {
        self.set_access(devices, CuMemAccessFlags::NONE)
    }

    fn set_access(&self, devices: &[Device], flags: CuMemAccessFlags) -> Result<(), Error> {
        if devices.is_empty() {
            return Ok(());
        }
        let driver = calls_for(None)?;
        let access: Vec<CuMemAccessDesc> = devices
            .iter()
            .map(|&device| CuMemAccessDesc { location: on_device(device), flags })
            .collect();
        // SAFETY: the pool exists, and the pointer is to that many descriptions.
        let code = unsafe { driver.cuMemPoolSetAccess(self.handle, access.as_ptr(), access.len()) };
        check("cuMemPoolSetAccess", code)
    }
}
