//! The kernels of a GPU, from PTX text.

use std::ffi::{CStr, c_void};

use rmm_core::{Device, DevicePtr, Error, StreamRef, check, current_driver, driver_in_context};
use rmm_sys::{CuFunction, CuModule};

/// The code, with the zero at its end that the driver looks for.
const PTX: &str = concat!(include_str!("kernels.ptx"), "\0");

/// Blocks and threads of every launch. They leave most of a device free, so that a kernel that
/// spins does not keep the kernels of other streams from running beside it.
const BLOCKS: u32 = 32;
const THREADS: u32 = 256;

/// A loaded module, unloaded when this is dropped.
#[derive(Debug)]
pub(super) struct Module {
    /// # Invariant
    /// Loaded by `load`.
    handle: CuModule,
    /// # Invariant
    /// `rmm_fill(u64 pointer, u32 words, u32 first_value, u64 spin_cycles)` of the module.
    pub(super) fill: CuFunction,
    /// # Invariant
    /// `rmm_check(u64 pointer, u32 words, u32 first_value, u64 errors)` of the module.
    pub(super) check: CuFunction,
    /// # Invariant
    /// `rmm_add(u64 pointer, u32 words, u32 summand, u64 unused)` of the module.
    pub(super) add: CuFunction,
}

impl Module {
    pub(super) fn load() -> Result<Self, Error> {
        let (driver, _) = driver_in_context()?;
        let mut handle = CuModule::from_raw(std::ptr::null_mut());
        // SAFETY: `handle` may be written to, and the image is text that ends with a zero.
        let code =
            unsafe { driver.cuModuleLoadData(&raw mut handle, PTX.as_ptr().cast::<c_void>()) };
        check("cuModuleLoadData", code)?;
        let none = CuFunction::from_raw(std::ptr::null_mut());
        let mut module = Self { handle, fill: none, check: none, add: none };
        module.fill = module.function(c"rmm_fill")?;
        module.check = module.function(c"rmm_check")?;
        module.add = module.function(c"rmm_add")?;
        module.warm_up()?;
        Ok(module)
    }

    fn function(&self, name: &CStr) -> Result<CuFunction, Error> {
        let driver = current_driver()?;
        let mut function = CuFunction::from_raw(std::ptr::null_mut());
        // SAFETY: `function` may be written to, the module is loaded, and the name ends with a
        // zero.
        let code =
            unsafe { driver.cuModuleGetFunction(&raw mut function, self.handle, name.as_ptr()) };
        check("cuModuleGetFunction", code)?;
        Ok(function)
    }

    /// Launches each kernel once for no words: a driver that loads code lazily may wait for the
    /// whole device at the first launch, which would hide an order that is missing.
    fn warm_up(&self) -> Result<(), Error> {
        let stream = StreamRef::legacy();
        for function in [self.fill, self.check, self.add] {
            // SAFETY: all kernels take these parameters, and touch no memory for no words.
            unsafe { launch(function, stream, (DevicePtr::NULL, 0, 0, 0)) }?;
        }
        stream.synchronize()
    }
}

/// What every kernel takes: an address, its words, a value, and a number of its own.
pub(super) type Parameters = (DevicePtr, u32, u32, u64);

/// # Safety
/// The function is a kernel with these parameters, the stream exists, and the kernel
/// touches only memory that may be used at this place on the stream.
pub(super) unsafe fn launch(
    function: CuFunction,
    stream: StreamRef<'_>,
    (mut pointer, mut words, mut first_value, mut last): Parameters,
) -> Result<(), Error> {
    let (driver, _) = driver_in_context()?;
    let mut parameters: [*mut c_void; 4] = [
        (&raw mut pointer).cast(),
        (&raw mut words).cast(),
        (&raw mut first_value).cast(),
        (&raw mut last).cast(),
    ];
    // SAFETY: the caller's contract; the driver copies the parameters before it returns.
    let code = unsafe {
        driver.cuLaunchKernel(
            function,
            BLOCKS,
            1,
            1,
            THREADS,
            1,
            1,
            0,
            stream.as_raw(),
            parameters.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    check("cuLaunchKernel", code)
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok((driver, _)) = driver_in_context() {
            // If that fails the device is lost, and runs nothing.
            let _ignored = Device::synchronize_current();
            // SAFETY: the module is loaded, and none of its kernels is left to run. A failure means
            // that the driver is gone.
            let _ignored = unsafe { driver.cuModuleUnload(self.handle) };
        }
    }
}
