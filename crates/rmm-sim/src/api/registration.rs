//! Ranges of memory that a library has registered, such as NCCL or cuFile.
#![forbid(unsafe_code)]

use rmm_sys::{CuDevicePtr, CuResult};

use crate::engine::machine::Machine;

impl Machine {
    /// Notes that a library has registered memory, as NCCL's `ncclCommRegister`, cuFile's
    /// `cuFileBufRegister` and `ibv_reg_mr` do. Until [`deregister`](Self::deregister) it is a
    /// violation to unmap, free or put to sleep what overlaps it: the library would use what is
    /// mapped there later. The driver does not hear of such registrations, so a test calls this
    /// where it calls the library.
    ///
    /// ```
    /// use rmm_sim::{Machine, ViolationKind};
    /// use rmm_sys::{CuDevicePtr, CuResult};
    ///
    /// let machine = Machine::new();
    /// let _here = machine.enter();
    /// let driver = rmm_sim::driver();
    /// let (mut context, mut memory) = (rmm_sys::CuContext::NULL, CuDevicePtr::NULL);
    /// // SAFETY: results may be written, and the memory is freed once.
    /// unsafe {
    ///     driver.cuInit(0);
    ///     driver.cuDevicePrimaryCtxRetain(&raw mut context, rmm_sys::CuDevice(0));
    ///     driver.cuCtxSetCurrent(context);
    ///     driver.cuMemAlloc_v2(&raw mut memory, 4096);
    ///     machine.register(memory, 4096).unwrap();
    ///     driver.cuMemFree_v2(memory);
    /// }
    /// assert_eq!(machine.violations()[0].kind, ViolationKind::FreedWhileRegistered);
    /// ```
    ///
    /// # Errors
    /// `INVALID_VALUE` if it is empty, or overlaps what is registered.
    #[doc(alias = "ncclCommRegister")]
    #[doc(alias = "cuFileBufRegister")]
    pub fn register(&self, start: CuDevicePtr, bytes: usize) -> Result<(), CuResult> {
        let start = usize::try_from(start.0).map_err(|_| CuResult::INVALID_VALUE)?;
        let end = start.checked_add(bytes).ok_or(CuResult::INVALID_VALUE)?;
        let is_new = self.lock().checks.registrations.add(start..end);
        is_new.then_some(()).ok_or(CuResult::INVALID_VALUE)
    }

    /// Ends the registration of the memory that starts there.
    ///
    /// # Errors
    /// `INVALID_VALUE` if none starts there.
    #[doc(alias = "ncclCommDeregister")]
    #[doc(alias = "cuFileBufDeregister")]
    pub fn deregister(&self, start: CuDevicePtr) -> Result<(), CuResult> {
        let start = usize::try_from(start.0).map_err(|_| CuResult::INVALID_VALUE)?;
        let was_one = self.lock().checks.registrations.remove(start);
        was_one.then_some(()).ok_or(CuResult::INVALID_VALUE)
    }
}
