//! RMM's containers as operands of cudarc's copies and arguments of its kernels, on the pool.
//!
//! A program that uses [cudarc](https://docs.rs/cudarc) keeps its contexts, streams, modules, its
//! launch builder and its libraries (cuBLAS and the like), and takes device memory from a resource
//! of this library. A container is *lent* to a stream: the value is what cudarc calls a
//! `DevicePtr`, and its work is in order with all other work on the container.
//!
//! ```
//! use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
//! # use cudarc_0_19 as cudarc;
//! use rmm_containers::DeviceUVector;
//! use rmm_interop_cudarc::{Lend, LendMut, Stream};
//!
//! # const PTX: &str = "";
//! fn saxpy(host: &[f32]) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
//!     let context = CudaContext::new(0)?;
//!     let f = context.load_module(cudarc::nvrtc::Ptx::from_src(PTX))?.load_function("saxpy")?;
//!     // SAFETY: the stream is not captured.
//!     let s = unsafe { Stream::adopt(&context.new_stream()?) }?;
//!
//!     let x = DeviceUVector::from_slice(host, &s)?; // from the current resource, such as a pool
//!     let mut y = DeviceUVector::<f32>::zeroed(host.len(), &s)?;
//!     let (a, n) = (2.0_f32, host.len());
//!     let config = LaunchConfig::for_num_elems(n as u32);
//!     // SAFETY: the kernel's parameters are these, and it writes `n` elements of `y`.
//!     unsafe {
//!         s.launch_builder(&f).arg(&y.lend_mut(&s)?).arg(&x.lend(&s)?).arg(&a).arg(&n).launch(config)
//!     }?;
//!     Ok(s.clone_dtoh(&y.lend(&s)?)?)
//! }
//!
//! // Here on the software device, with the kernel in Rust; on a GPU, with its PTX.
//! rmm_sim_cuda::load()?;
//! rmm_sim::check(|gpu| {
//!     gpu.kernel("saxpy", "float y[n], const float x[n], float a, size_t n", |call| {
//!         let (a, x, y) = (call.value::<f32>("a"), call.read("x")?, call.read::<f32>("y")?);
//!         let sums = y.iter().zip(x).map(|(y, x): (_, f32)| a * x + y);
//!         call.write("y", &sums.collect::<Vec<_>>())
//!     });
//!     assert_eq!(saxpy(&[1.0, 2.0]).unwrap(), [2.0, 4.0]);
//! });
//! # Ok::<(), rmm_sim_cuda::ProvideError>(())
//! ```
//!
//! | here | is |
//! |---|---|
//! | [`Stream`] | one stream, known to both libraries |
//! | [`Lend`], [`LendMut`], [`Lent`] | a container as an operand or a kernel's argument |
//! | [`LendHost`], [`LentHost`] | a pinned vector as the host's side of a copy |
//! | [`OwnedSlice`] | a `CudaSlice` in a container's memory, for interfaces that name that type |
//!
//! # Rules
//!
//! - Order is the container's alone. No order depends on a guard of cudarc's, or on a destructor: a
//!   value may be forgotten, and the container dropped while work is queued.
//! - An operand that is used on another stream than it was lent to is in order too: that stream
//!   waits, and the host waits for it. An argument of a kernel is not, because cudarc's launch
//!   builder does not show its stream: lend to the stream that you launch on.
//! - cudarc's events for each slice (`CudaContext::is_event_tracking`) are not needed for
//!   containers.
//!
//! # Versions of cudarc
//!
//! | feature | module |
//! |---|---|
//! | `cudarc-0-19` (default) | `v0_19`, whose items are also those of the crate's root |
//! | `cudarc-0-18`, `cudarc-0-17`, `cudarc-0-16` | `v0_18`, `v0_17`, `v0_16` |
//!
//! Several may be enabled at once. This crate asks for no CUDA version and no way to link: those
//! that your own dependency on cudarc names are used.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cudarc-0-16")]
#[expect(clippy::unnecessary_safety_comment, reason = "it reads those of the examples above")]
pub mod v0_16;
#[cfg(feature = "cudarc-0-17")]
pub mod v0_17;
#[cfg(feature = "cudarc-0-18")]
pub mod v0_18;
#[cfg(feature = "cudarc-0-19")]
pub mod v0_19;

#[cfg(feature = "cudarc-0-19")]
pub use v0_19::{Lend, LendHost, LendMut, Lent, LentHost, OwnedSlice, Stream};

/// The page on kernels, and the guide's section on programs of cudarc's.
#[cfg(all(doctest, feature = "cudarc-0-19"))]
mod pages {
    #[doc = include_str!("../../../docs/checking-stream-order.md")]
    mod checking_stream_order {}
    #[doc = include_str!("../../../docs/kernels.md")]
    mod kernels {}
}
