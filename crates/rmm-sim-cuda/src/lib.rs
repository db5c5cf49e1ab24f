//! A `libcuda` made of the software device: unmodified CUDA programs in a plain `cargo test`, with
//! no GPU.
//!
//! Crates such as `cudarc` and NVIDIA's `cuda-core` open the driver's library by name, and cannot
//! be given a table of functions. But a library that is already loaded under that name is the one
//! that the loader finds. [`load`] loads two, `libcuda.so` and `libcuda.so.1`, whose functions are
//! those of [`rmm_sim`] in this very program: machines, checks and failures are the test's own.
//!
//! ```text
//! cudarc       dlopen("libcuda.so") ----+
//!                                       v
//! load()       libcuda.so, libcuda.so.1: one jump for each function of the driver API
//!                                       |
//!                                       v
//!              an array that `load` fills: functions of rmm_sim's table, shims, NOT_SUPPORTED
//! ```
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! rmm_sim_cuda::load()?;
//! let gpu = rmm_sim::Machine::new();
//! let _here = gpu.enter(); // or `rmm_sim::check`, for ten schedules and a report
//! gpu.kernel("scale", "float y[n], float a, size_t n", |call| {
//!     let (a, y) = (call.value::<f32>("a"), call.read::<f32>("y")?);
//!     let scaled: Vec<f32> = y.iter().map(|y| a * y).collect();
//!     call.write("y", &scaled)
//! });
//! // From here on, a program that uses cudarc, NVIDIA's cuda-core or the driver API.
//! # }
//! # Ok::<(), rmm_sim_cuda::ProvideError>(())
//! ```
//!
//! # What is there
//!
//! Every function of the driver API of CUDA 13.4, but for those of graphics. Those of
//! [`rmm_sys::driver_symbols`] are the software device's. About fifty more are served on them:
//! other names of the same (`cuStreamCreate`), and answers that do not depend on a device
//! (`cuOccupancyMaxActiveBlocksPerMultiprocessor`). The rest returns `NOT_SUPPORTED`.
//! `cuGetProcAddress` finds what is served.
//!
//! Kernels are found by name in any module, once they are [registered](rmm_sim::Machine::kernel). A
//! name that is not registered is `NOT_FOUND`, so that no kernel is taken for run that was not.
//!
//! # What it is not
//!
//! - Not the CUDA runtime. Programs that use `libcudart` (PyTorch, `CuPy`) need private tables of
//!   the driver (`cuGetExportTable`), which are not there. Nor are cuBLAS, cuRAND and the like.
//! - No device code: PTX and cubins load, and are not read.
//! - Linux on x86-64. On `AArch64` the jumps are written and have not been run. Elsewhere [`load`]
//!   returns an error.

#[macro_use]
mod symbols;

mod errors;
mod load;
mod proc_address;
#[doc(hidden)]
pub mod shims;
mod table;

pub use load::{ProvideError, load};
#[doc(hidden)]
pub use proc_address::replace as replace_functions;
