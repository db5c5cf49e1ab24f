//! Functions of the system's driver that the table does not have, looked up by name.

use std::ffi::{CStr, c_void};

use rmm_conformance::{CheckResult, DeviceHandle, Environment, Failure};
use rmm_sys::{CuContext, CuDevice, CuResult};

use super::contexts::push;
use super::raw::driver;
use super::works;

/// A function of the system's driver; `None` if the driver has none of this name.
///
/// # Safety
/// `F` is a function pointer with the signature that the driver's function of this name has.
pub(super) unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the library is loaded already, so no initialiser runs, and the name ends with a zero.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the library is open and stays so, and the name ends with a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: the address of a function of this type, by the caller's contract.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}

/// `cuCtxCreate_v2`, which drivers of CUDA 12 and 13 have.
type Create = unsafe extern "C" fn(*mut CuContext, u32, CuDevice) -> CuResult;
/// `cuCtxDestroy_v2`.
type Destroy = unsafe extern "C" fn(CuContext) -> CuResult;

/// A context other than the one under test, which is created on the same device.
pub(super) struct OtherContext {
    pub(super) raw: CuContext,
    destroy: Destroy,
}

/// `cuCtxCreate_v2` and `cuCtxDestroy_v2` of the software device.
unsafe extern "C" fn create_simulated(
    context: *mut CuContext,
    flags: u32,
    device: CuDevice,
) -> CuResult {
    // SAFETY: the caller's contract.
    unsafe { rmm_sim::create_context(context, flags, device) }
}

unsafe extern "C" fn destroy_simulated(context: CuContext) -> CuResult {
    rmm_sim::destroy_context(context)
}

impl OtherContext {
    pub(super) fn new(environment: &Environment) -> Result<Self, Failure> {
        let missing = || Failure::new("the driver has no cuCtxCreate_v2");
        let (create, destroy): (Create, Destroy) = match environment.handle() {
            DeviceHandle::Software(_) => (create_simulated, destroy_simulated),
            DeviceHandle::Gpu(_) => {
                // SAFETY: this is its signature.
                let create = unsafe { function(c"cuCtxCreate_v2") }.ok_or_else(missing)?;
                // SAFETY: as above.
                let destroy = unsafe { function(c"cuCtxDestroy_v2") }.ok_or_else(missing)?;
                (create, destroy)
            }
        };
        let (mut device, mut raw) = (CuDevice(0), CuContext::NULL);
        // SAFETY: `device` may be written to.
        unsafe { driver().cuCtxGetDevice(&raw mut device) }.result()?;
        // SAFETY: `raw` may be written to.
        unsafe { create(&raw mut raw, 0, device) }.result()?;
        let created = Self { raw, destroy };
        // The call has made it current.
        created.leave()?;
        Ok(created)
    }

    /// Does something with this context current.
    pub(super) fn within<T>(&self, run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        works("entering the other context", push(self.raw))?;
        let result = run();
        self.leave()?;
        result
    }

    fn leave(&self) -> CheckResult {
        let mut popped = CuContext::NULL;
        // SAFETY: `popped` may be written to.
        works("leaving it", unsafe { driver().cuCtxPopCurrent_v2(&raw mut popped) })?;
        super::answers("the context that was left", &popped, &self.raw)
    }
}

impl Drop for OtherContext {
    fn drop(&mut self) {
        // SAFETY: it was created, and probes drop what they made in it before. A failure means that
        // the driver is gone.
        let _ignored = unsafe { (self.destroy)(self.raw) };
    }
}
