//! Memory and streams of rmm in programs of NVIDIA's `cuda-core`, and the other way round.
//!
//! ```ignore
//! use cuda_core::{Context, DeviceBuffer};
//! use rmm::DeviceUVector;
//! use rmm_interop_cuda_core::{IntoCudaCore, adopt_stream};
//!
//! let context = Context::new(0)?;
//! let theirs = context.new_stream()?;
//! // SAFETY: the program captures no graph of it.
//! let stream = unsafe { adopt_stream(&theirs) }?;
//!
//! let vector = DeviceUVector::from_slice(&host, &stream)?; // the memory of the current resource
//! let buffer: DeviceBuffer<f32> = vector.into_cuda_core(&context)?; // the same memory
//! assert_eq!(buffer.to_host_vec(&theirs)?, host);
//! drop(buffer); // the memory goes back to the resource
//! ```
//!
//! | from | to | by |
//! |---|---|---|
//! | [`DeviceBuffer`](rmm_containers::DeviceBuffer) | [`cuda_core::RawDeviceBuffer`] | [`IntoCudaCore`] |
//! | [`DeviceUVector`](rmm_containers::DeviceUVector) | [`cuda_core::DeviceBuffer`] | [`IntoCudaCore`] |
//! | [`CudaStream`](rmm_core::CudaStream) | [`cuda_core::Stream`] | [`lend_stream`] |
//! | [`cuda_core::Stream`] | [`CudaStream`](rmm_core::CudaStream) | [`adopt_stream`] |
//!
//! `cuda-core` takes memory of others one allocation at a time: what it allocates itself comes from
//! the driver.

#[expect(clippy::unnecessary_safety_comment, reason = "it reads that of the example above")]
mod memory;
mod stream;

pub use memory::{IntoCudaCore, NotTaken};
pub use stream::{adopt_stream, lend_stream};

/// Names this crate in errors.
const NAME: &str = "cuda-core";

/// Whether the two name the same context of the driver.
fn is_same(ours: rmm_core::Context, theirs: &cuda_core::Context) -> bool {
    ours.as_raw().addr() == theirs.cu_ctx().addr()
}
