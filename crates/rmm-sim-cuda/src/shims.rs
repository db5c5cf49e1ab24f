//! Functions that the software device's table lacks, on top of it.
//!
//! They have the contracts of the driver's functions of their names: pointers are null, or valid
//! for what the documentation of the driver says. A null pointer to a result is `INVALID_VALUE`.

/// Writes functions of the driver that return a status code.
macro_rules! driver_shims {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// The contract of the driver's function of this name.
        #[expect(non_snake_case, reason = "the driver's own name")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> rmm_sys::CuResult $body
    )*};
}

mod devices;
mod kernels;
mod memory;
mod names;
mod occupancy;
mod streams;

use std::ffi::c_void;

use rmm_sys::{CuContext, CuResult, CuStream};

pub use devices::*;
pub use kernels::*;
pub use memory::*;
pub use names::*;
pub use occupancy::*;
pub use streams::*;

/// The configuration of a launch (`CUlaunchConfig`).
#[doc(alias = "CUlaunchConfig")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: CuStream,
    /// Attributes, which the software device does not read.
    pub attributes: *mut c_void,
    /// Their number.
    pub attribute_count: u32,
}

/// Writes a result.
///
/// # Safety
/// `pointer` is null or valid for a write.
unsafe fn put<T>(pointer: *mut T, value: T) -> CuResult {
    if pointer.is_null() {
        return CuResult::INVALID_VALUE;
    }
    // SAFETY: it is valid for a write, by the caller's contract. C does not promise alignment.
    unsafe { pointer.write_unaligned(value) };
    CuResult::SUCCESS
}

/// The calling thread's context.
///
/// # Errors
/// `INVALID_CONTEXT` if there is none.
fn current_context() -> Result<CuContext, CuResult> {
    let mut context = CuContext::NULL;
    // SAFETY: `context` is valid for a write.
    unsafe { rmm_sim::driver().cuCtxGetCurrent(&raw mut context) }.result()?;
    if context.is_null() { Err(CuResult::INVALID_CONTEXT) } else { Ok(context) }
}

fn code_of(result: Result<(), CuResult>) -> CuResult {
    result.err().unwrap_or(CuResult::SUCCESS)
}
