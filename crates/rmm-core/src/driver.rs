//! Access to the driver, and conversion of its status codes to errors.

use rmm_sys::{CuContext, CuDevice, CuResult, Driver, epoch};

use crate::{Error, exit, wait};

/// The process's driver: the table of its functions, ready to be called.
///
/// The driver is initialized, and a context is current on the calling thread, as
/// [`driver_in_context`] says.
///
/// ```
/// # let _machine = rmm_sim::enter();
/// let driver = rmm_core::current_driver()?;
/// let (mut free, mut total) = (0, 0);
/// // SAFETY: both may be written to.
/// let code = unsafe { driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) };
/// rmm_core::check("cuMemGetInfo_v2", code)?;
/// assert!(free <= total);
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DriverUnavailable`](crate::ErrorKind::DriverUnavailable) if there is none, or no
/// device.
pub fn current_driver() -> Result<&'static Driver, Error> {
    Ok(driver_in_context()?.0)
}

/// The process's driver as loaded: possibly not initialized, and possibly without a current
/// context. To be called: runs the [hook](wait) of the call that the thread is in.
pub(crate) fn loaded_driver() -> Result<&'static Driver, Error> {
    wait::about_to_wait();
    Ok(Driver::get()?)
}

/// The process's driver, for a `Drop` that frees driver objects. `None` if the process has no
/// driver, or [is exiting](crate::process_is_exiting) and may have unloaded it.
///
/// Every `Drop` that would call the driver asks here first, and does nothing on `None`: the
/// operating system reclaims everything when the process ends.
///
/// ```
/// # let _machine = rmm_sim::enter();
/// assert!(rmm_core::driver_for_drop().is_some()); // for as long as the process does not exit
/// ```
#[doc(alias = "RMM_ASSERT_CUDA_SUCCESS_SAFE_SHUTDOWN")]
pub fn driver_for_drop() -> Option<&'static Driver> {
    if exit::process_is_exiting() { None } else { loaded_driver().ok() }
}

/// Turns the code that the driver function `function` returned into a result.
///
/// ```
/// use rmm_core::{ErrorKind, check};
/// use rmm_sys::CuResult;
///
/// assert!(check("cuMemAlloc_v2", CuResult::SUCCESS).is_ok());
/// let error = check("cuMemAlloc_v2", CuResult::OUT_OF_MEMORY).unwrap_err();
/// assert_eq!((error.kind(), error.origin()), (ErrorKind::OutOfMemory, "cuMemAlloc_v2"));
/// ```
///
/// # Errors
/// If the code is not success: [`Error::driver`].
#[doc(alias = "RMM_CUDA_TRY")]
#[doc(alias = "RMM_CUDA_TRY_ALLOC")]
pub fn check(function: &'static str, code: CuResult) -> Result<(), Error> {
    if code == CuResult::SUCCESS { Ok(()) } else { Err(refused(function, code)) }
}

/// The error of a code that is not success.
#[cold]
pub(crate) fn refused(function: &'static str, code: CuResult) -> Error {
    if code.is_sticky() {
        // Allocators that serve requests without a driver call check their context from now on.
        epoch::note_end_of_context();
    }
    Error::driver(function, code)
}

/// Queries the driver, and retries once on failure, since one failed call proves nothing. An error
/// that says that a stream is captured, or that the context is lost, is an answer and not retried.
///
/// # Errors
/// The error of the last try.
#[doc(hidden)]
pub fn ask_again<T>(ask: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    ask().or_else(|error| match error.code() {
        Some(code) if !code.is_capture() && !code.is_sticky() => ask(),
        _ => Err(error),
    })
}

/// The driver, with a context current on the calling thread.
///
/// The current context stays as it is, so that this library works beside others; a thread without
/// one gets the primary context of device 0, as from the CUDA runtime. That context is retained
/// until the end of the process, as the runtime does. Returns the context too.
///
/// ```
/// # let _machine = rmm_sim::enter();
/// let (_driver, context) = rmm_core::driver_in_context()?;
/// assert_eq!(context, rmm_core::Context::current()?.as_raw());
/// # Ok::<(), rmm_core::Error>(())
/// ```
///
/// # Errors
/// If there is no driver or no device.
pub fn driver_in_context() -> Result<(&'static Driver, CuContext), Error> {
    let driver = loaded_driver()?;
    let context = context_of_thread(driver)?;
    exit::watch();
    if !context.is_null() {
        return Ok((driver, context));
    }
    let context = retain_primary_context(driver, CuDevice(0))?;
    // SAFETY: the context was retained just now and is never released.
    check("cuCtxSetCurrent", unsafe { driver.cuCtxSetCurrent(context) })?;
    Ok((driver, context))
}

/// The calling thread's context or null. Initializes the driver if necessary.
pub(crate) fn context_of_thread(driver: &Driver) -> Result<CuContext, Error> {
    let mut context = CuContext::NULL;
    // SAFETY: `context` may be written to.
    let mut code = unsafe { driver.cuCtxGetCurrent(&raw mut context) };
    if code == CuResult::NOT_INITIALIZED {
        init(driver)?;
        // SAFETY: `context` may be written to.
        code = unsafe { driver.cuCtxGetCurrent(&raw mut context) };
    }
    check("cuCtxGetCurrent", code)?;
    Ok(context)
}

/// Initializes the driver; may be called twice.
pub(crate) fn init(driver: &Driver) -> Result<(), Error> {
    // SAFETY: takes no pointer; 0 is the only flag that exists.
    check("cuInit", unsafe { driver.cuInit(0) })
}

/// A device's primary context, retained and never released.
pub(crate) fn retain_primary_context(
    driver: &Driver,
    device: CuDevice,
) -> Result<CuContext, Error> {
    let context = retain_after_start(driver, device)?;
    exit::watch();
    Ok(context)
}

/// Retains the context. Initializes the driver if necessary.
fn retain_after_start(driver: &Driver, device: CuDevice) -> Result<CuContext, Error> {
    let mut context = CuContext::NULL;
    // SAFETY: `context` may be written to.
    let code = unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, device) };
    if code == CuResult::NOT_INITIALIZED {
        init(driver)?;
        // SAFETY: `context` may be written to.
        check("cuDevicePrimaryCtxRetain", unsafe {
            driver.cuDevicePrimaryCtxRetain(&raw mut context, device)
        })?;
        return Ok(context);
    }
    check("cuDevicePrimaryCtxRetain", code)?;
    Ok(context)
}
