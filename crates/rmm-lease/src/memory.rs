//! Physical memory of a device, made without a context.

use std::cell::RefCell;
use std::ffi::c_int;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm_core::{Device, Error, ErrorKind, check, driver_for_drop, fork};
use rmm_sys::{
    CuMemAllocationProp, CuMemGranularity, CuMemHandle, CuMemHandleType, CuMemLocation,
    CuMemLocationType, Driver,
};

use crate::Refusal;

const KIND: CuMemHandleType = CuMemHandleType::POSIX_FILE_DESCRIPTOR;

/// How many allocations of an owner keep a descriptor, of the 1,024 that a process may commonly
/// have.
const MOST_KEPT: usize = 256;

/// Where memory is made.
pub(crate) struct Origin {
    driver: &'static Driver,
    device: Device,
    granularity: usize,
    /// How many of its allocations keep a descriptor.
    kept: Arc<AtomicUsize>,
}

impl Origin {
    /// Memory of this device.
    pub(crate) fn on(device: Device) -> Result<Self, Error> {
        let driver = Driver::get()?;
        let granularity = granularity_on(driver, device)?;
        Ok(Self { driver, device, granularity, kept: Arc::default() })
    }

    pub(crate) fn make(&self, bytes: u64) -> Result<PhysicalMemory, Refusal> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        if size == 0 || size % self.granularity != 0 {
            let granularity = self.granularity;
            return Err(Refusal::new(format!("{bytes} bytes are no multiple of {granularity}")));
        }
        let mut handle = CuMemHandle(0);
        let properties = properties_on(self.device);
        // SAFETY: `handle` may be written to, and the properties read.
        let code =
            unsafe { self.driver.cuMemCreate(&raw mut handle, size, &raw const properties, 0) };
        check("cuMemCreate", code).map_err(|error| refusal(&error))?;
        let (driver, kept) = (self.driver, Arc::clone(&self.kept));
        Ok(PhysicalMemory { driver, handle, file: RefCell::default(), kept })
    }
}

/// What sizes are a multiple of.
pub(crate) fn granularity_on(driver: &Driver, device: Device) -> Result<usize, Error> {
    let (mut granularity, properties) = (0, properties_on(device));
    let least = CuMemGranularity::MINIMUM;
    // SAFETY: `granularity` may be written to, and the properties read.
    let code = unsafe {
        driver.cuMemGetAllocationGranularity(&raw mut granularity, &raw const properties, least)
    };
    check("cuMemGetAllocationGranularity", code)?;
    Ok(granularity.max(1))
}

/// Memory of the device that can be exported.
fn properties_on(device: Device) -> CuMemAllocationProp {
    let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: device.as_raw().0 };
    CuMemAllocationProp { requested_handle_types: KIND, ..CuMemAllocationProp::pinned(location) }
}

fn refusal(error: &Error) -> Refusal {
    let out_of_memory = error.kind() == ErrorKind::OutOfMemory;
    Refusal { message: error.to_string(), out_of_memory }
}

/// Memory that is released when dropped; others that have mapped it keep it.
pub(crate) struct PhysicalMemory {
    driver: &'static Driver,
    /// # Invariant
    /// A reference from `cuMemCreate`.
    handle: CuMemHandle,
    /// One that was exported before: without a context the driver takes 1.4 ms for each.
    file: RefCell<Option<OwnedFd>>,
    kept: Arc<AtomicUsize>,
}

impl PhysicalMemory {
    /// A descriptor of the memory.
    pub(crate) fn export(&self) -> Result<OwnedFd, Refusal> {
        if let Some(Ok(file)) = self.file.borrow().as_ref().map(OwnedFd::try_clone) {
            return Ok(file);
        }
        let file = self.export_anew()?;
        let mut kept = self.file.borrow_mut();
        if kept.is_none() && self.kept.load(Ordering::Relaxed) < MOST_KEPT {
            *kept = file.try_clone().ok();
            self.kept.fetch_add(usize::from(kept.is_some()), Ordering::Relaxed);
        }
        Ok(file)
    }

    fn export_anew(&self) -> Result<OwnedFd, Refusal> {
        const CALL: &str = "cuMemExportToShareableHandle";
        let mut file: c_int = -1;
        let place = (&raw mut file).cast();
        // SAFETY: for this type of handle the place is to a `c_int`; the reference is live.
        let code = unsafe { self.driver.cuMemExportToShareableHandle(place, self.handle, KIND, 0) };
        check(CALL, code).map_err(|error| refusal(&error))?;
        if file < 0 {
            return Err(Refusal::new(format!("{CALL} returned no file descriptor")));
        }
        // SAFETY: the driver has opened the descriptor for the caller, who owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }
}

impl Drop for PhysicalMemory {
    fn drop(&mut self) {
        self.kept.fetch_sub(usize::from(self.file.get_mut().is_some()), Ordering::Relaxed);
        // In a child that was forked the driver does not work, and the memory is the parent's.
        if fork::check().is_err() {
            return;
        }
        if let Some(driver) = driver_for_drop() {
            // SAFETY: the reference of `cuMemCreate`, used nowhere else.
            let _ignored = unsafe { driver.cuMemRelease(self.handle) };
        }
    }
}
