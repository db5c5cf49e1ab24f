//! Devices.

use std::ffi::{c_char, c_int};
use std::marker::PhantomData;

use rmm_sys::{CuContext, CuDevice, CuDeviceAttribute, CuResult, CuUuid};

use crate::driver::{
    check, driver_for_drop, driver_in_context, init, loaded_driver, retain_primary_context,
};
use crate::{CUDA_ALLOCATION_ALIGNMENT, Error};

/// A device, by its ordinal. Functions without a `self` are about the current device: that of the
/// calling thread's current context.
///
/// ```
/// use rmm_core::Device;
///
/// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
/// assert_eq!(Device::count()?, 2);
/// let second = Device::new(1)?;
/// {
///     let _current = second.make_current()?;
///     assert_eq!(Device::current()?, second);
/// }
/// assert_eq!(Device::current()?.ordinal(), 0);
/// assert!(Device::new(2).unwrap_err().is_invalid_argument());
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "rmm::cuda_device_id")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Device(CuDevice);

/// How much memory a device has, see [`Device::memory_info`].
///
/// ```
/// # let _machine = rmm_sim::Machine::builder().memory(1 << 30).enter();
/// let memory = rmm_core::Device::memory_info()?;
/// assert_eq!((memory.free, memory.total), (1 << 30, 1 << 30));
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "cudaMemGetInfo")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryInfo {
    /// Bytes that are free, not necessarily contiguous.
    pub free: u64,
    /// Total bytes of the device.
    pub total: u64,
}

impl Device {
    /// The number of devices.
    ///
    /// # Errors
    /// If there is no driver.
    #[doc(alias = "cudaGetDeviceCount")]
    #[doc(alias = "rmm::get_num_cuda_devices")]
    pub fn count() -> Result<usize, Error> {
        let driver = loaded_driver()?;
        init(driver)?;
        let mut count = 0;
        // SAFETY: `count` may be written to.
        check("cuDeviceGetCount", unsafe { driver.cuDeviceGetCount(&raw mut count) })?;
        usize::try_from(count).map_err(|_| {
            Error::driver("cuDeviceGetCount", CuResult::UNKNOWN)
                .with_message(format!("{count} devices"))
        })
    }

    /// All devices, by ascending ordinal.
    ///
    /// ```
    /// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
    /// let devices = rmm_core::Device::all()?;
    /// let ordinals: Vec<usize> = devices.map(|device| device.ordinal()).collect();
    /// assert_eq!(ordinals, [0, 1]);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no driver.
    pub fn all() -> Result<impl ExactSizeIterator<Item = Self> + use<>, Error> {
        let count = c_int::try_from(Self::count()?).unwrap_or(c_int::MAX);
        Ok((0..count).map(|number| Self(CuDevice(number))))
    }

    /// The device with this ordinal, from 0.
    ///
    /// # Errors
    /// If there is no driver; [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if
    /// there is no such device.
    pub fn new(ordinal: usize) -> Result<Self, Error> {
        let count = Self::count()?;
        match c_int::try_from(ordinal) {
            Ok(number) if ordinal < count => Ok(Self(CuDevice(number))),
            _ => {
                let message = format!("there is no device {ordinal}: the driver has {count}");
                Err(Error::invalid_argument("Device::new", message))
            }
        }
    }

    /// The device of the calling thread's current context; device 0 becomes current on a thread
    /// that has none.
    ///
    /// # Errors
    /// If there is no driver or no device.
    #[doc(alias = "rmm::get_current_cuda_device")]
    #[doc(alias = "cudaGetDevice")]
    pub fn current() -> Result<Self, Error> {
        let (driver, _) = driver_in_context()?;
        let mut device = CuDevice(0);
        // SAFETY: `device` may be written to.
        check("cuCtxGetDevice", unsafe { driver.cuCtxGetDevice(&raw mut device) })?;
        Ok(Self(device))
    }

    /// The device's ordinal, from 0.
    #[doc(alias = "rmm::cuda_device_id::value")]
    pub fn ordinal(self) -> usize {
        debug_assert!(self.0.0 >= 0, "the driver numbers devices from 0");
        self.0.0.unsigned_abs() as usize
    }

    /// The driver's handle.
    pub fn as_raw(self) -> CuDevice {
        self.0
    }

    /// The device's name.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cuDeviceGetName")]
    pub fn name(self) -> Result<String, Error> {
        let driver = loaded_driver()?;
        let mut bytes = [0u8; 256];
        let length = 256;
        // SAFETY: `bytes` has room for `length` bytes, the terminating zero among them.
        let code =
            unsafe { driver.cuDeviceGetName(bytes.as_mut_ptr().cast::<c_char>(), length, self.0) };
        check("cuDeviceGetName", code)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// A globally unique identifier of the device.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cuDeviceGetUuid")]
    pub fn uuid(self) -> Result<CuUuid, Error> {
        let driver = loaded_driver()?;
        let mut uuid = CuUuid::default();
        // SAFETY: `uuid` may be written to.
        check("cuDeviceGetUuid_v2", unsafe { driver.cuDeviceGetUuid_v2(&raw mut uuid, self.0) })?;
        Ok(uuid)
    }

    /// An attribute of the device.
    ///
    /// # Errors
    /// If the driver does not know the attribute.
    #[doc(alias = "cudaDeviceGetAttribute")]
    pub fn attribute(self, attribute: CuDeviceAttribute) -> Result<i32, Error> {
        let driver = loaded_driver()?;
        let mut value = 0;
        // SAFETY: `value` may be written to.
        let code = unsafe { driver.cuDeviceGetAttribute(&raw mut value, attribute, self.0) };
        check("cuDeviceGetAttribute", code)?;
        Ok(value)
    }

    /// Total bytes of the device.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cuDeviceTotalMem")]
    pub fn total_memory(self) -> Result<u64, Error> {
        let driver = loaded_driver()?;
        let mut bytes = 0;
        // SAFETY: `bytes` may be written to.
        check("cuDeviceTotalMem_v2", unsafe {
            driver.cuDeviceTotalMem_v2(&raw mut bytes, self.0)
        })?;
        Ok(bytes as u64)
    }

    /// The current device's free and total memory.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "rmm::available_device_memory")]
    pub fn memory_info() -> Result<MemoryInfo, Error> {
        let (driver, _) = driver_in_context()?;
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: both may be written to.
        check("cuMemGetInfo_v2", unsafe { driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }

    /// `percent` percent of the current device's free memory in bytes, rounded down to a multiple
    /// of 256: a size for a pool.
    ///
    /// ```
    /// use rmm_core::{Device, ErrorKind};
    ///
    /// # let _machine = rmm_sim::Machine::builder().memory(1 << 30).enter();
    /// assert_eq!(Device::percent_of_free_memory(50)?, 1 << 29);
    /// let error = Device::percent_of_free_memory(101).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `percent` is above 100;
    /// whatever [`memory_info`](Self::memory_info) reports.
    #[doc(alias = "rmm::percent_of_free_device_memory")]
    pub fn percent_of_free_memory(percent: u32) -> Result<u64, Error> {
        let invalid = || {
            let message = format!("{percent} percent is above 100");
            Error::invalid_argument("Device::percent_of_free_memory", message)
        };
        if percent > 100 {
            return Err(invalid());
        }
        let free = Self::memory_info()?.free;
        // In 128 bits the product fits; as no more than `free` so does the share.
        let share = u64::try_from(u128::from(free) * u128::from(percent) / 100);
        let share = share.map_err(|_| invalid())?;
        Ok(share - share % CUDA_ALLOCATION_ALIGNMENT as u64)
    }

    /// Whether this device can access the memory of `peer` directly, once access is enabled. A
    /// device is not its own peer.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaDeviceCanAccessPeer")]
    pub fn can_access_peer(self, peer: Self) -> Result<bool, Error> {
        let driver = loaded_driver()?;
        let mut can = 0;
        // SAFETY: `can` may be written to.
        let code = unsafe { driver.cuDeviceCanAccessPeer(&raw mut can, self.0, peer.0) };
        check("cuDeviceCanAccessPeer", code)?;
        Ok(can != 0)
    }

    /// Blocks until all work on the current device has completed.
    ///
    /// # Errors
    /// If the driver refuses, or earlier work has failed.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize_current() -> Result<(), Error> {
        let (driver, _) = driver_in_context()?;
        // SAFETY: takes no argument.
        check("cuCtxSynchronize", unsafe { driver.cuCtxSynchronize() })
    }

    /// Makes the device current on this thread until the guard is dropped, which restores the
    /// previous one. Drop guards in the reverse order of their creation. The device's primary
    /// context is retained until the end of the process.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "rmm::cuda_set_device_raii")]
    pub fn make_current(self) -> Result<DeviceGuard, Error> {
        let driver = loaded_driver()?;
        let context = retain_primary_context(driver, self.0)?;
        // SAFETY: the context was retained just now and is never released.
        check("cuCtxPushCurrent_v2", unsafe { driver.cuCtxPushCurrent_v2(context) })?;
        Ok(DeviceGuard { thread_bound: PhantomData })
    }
}

/// Keeps a device current on this thread, see [`Device::make_current`].
#[derive(Debug)]
#[must_use = "the device is current only while the guard lives"]
#[doc(alias = "rmm::cuda_set_device_raii")]
pub struct DeviceGuard {
    /// The stack of contexts belongs to the thread.
    thread_bound: PhantomData<*const ()>,
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        if let Some(driver) = driver_for_drop() {
            let mut popped = CuContext::NULL;
            // SAFETY: `popped` may be written to. A failure means that the driver is gone: nothing
            // to restore.
            let _ignored = unsafe { driver.cuCtxPopCurrent_v2(&raw mut popped) };
        }
    }
}
