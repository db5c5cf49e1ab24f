//! [DLPack](https://dmlc.github.io/dlpack/latest/) export and import of containers in device
//! memory, in stream order.
//!
//! DLPack is how PyTorch, CuPy, JAX, `candle`, `ndarray` and others exchange tensors without a
//! copy: a C structure with address, shape and element type, and a function that frees the memory.
//! The structure does not say on which stream the memory is ready; the caller does.
//!
//! - [`ToDlpack::into_dlpack`] makes a tensor of a container. It names the consumer's stream, which
//!   waits for the work on the memory; the memory is freed in the order of that stream, whichever
//!   thread calls the deleter.
//! - [`from_dlpack`] makes a [`DeviceUVector`](rmm_containers::DeviceUVector) of a tensor. The
//!   deleter of the producer is called after the vector's last use.
//!
//! ```
//! use rmm_containers::DeviceUVector;
//! use rmm_core::CudaStream;
//! use rmm_interop_dlpack::{Ready, ToDlpack, from_dlpack};
//!
//! # fn main() -> Result<(), rmm_core::Error> {
//! # let _machine = rmm_sim::enter();
//! let (own, consumer) = (CudaStream::new()?, CudaStream::new()?);
//! let vector = DeviceUVector::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &own)?;
//! let tensor = vector.into_dlpack(&[2, 3], Ready::On((&consumer).into()))?;
//! // ... through Python, or another library ...
//! // SAFETY: the tensor is valid, passed on once, and ready on `consumer`.
//! let tensor = unsafe { from_dlpack::<f32>(tensor, &consumer) }?;
//! assert_eq!(tensor.shape(), [2, 3]);
//! let vector = tensor.into_vector().expect("it may be written");
//! assert_eq!(vector.element(5)?, 6.0);
//! # Ok(())
//! # }
//! ```
//!
//! # Python's `stream`
//!
//! The `stream` argument of `__dlpack__` maps to [`Ready`]:
//!
//! | `stream` | |
//! |---|---|
//! | `None`, `1` | `Ready::On(StreamRef::legacy())` |
//! | `2` | `Ready::On(StreamRef::per_thread())` |
//! | `-1` | `Ready::Unordered` |
//! | a handle | `Ready::On(stream)`, in [`StreamRef::with_raw`](rmm_core::StreamRef::with_raw) |
//!
//! # What is supported
//!
//! The versioned structure, [`DLManagedTensorVersioned`]; elements of integers and floating-point
//! numbers, with the feature `half` also those of 16 bits; compact row-major tensors in CUDA
//! device, pinned and managed memory. Everything else is an error.

#[expect(clippy::unnecessary_safety_comment, reason = "it reads those of the example above")]
mod abi;
mod element;
mod export;
mod import;
mod shape;

/// The first page, whose example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use abi::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, DlpackDeleter,
    FLAG_IS_COPIED, FLAG_READ_ONLY,
};
pub use element::Element;
pub use export::{Ready, ToDlpack};
pub use import::{DlpackTensor, from_dlpack};
