//! The C interface of rmm-rs: memory resources for C, C++ and everything that calls C.
//!
//! The header `include/rmm_rs.h` is generated from this crate, and the libraries are
//! `librmm_rs.so.1` and `librmm_rs.a`. `include/rmm_rs.hpp` makes a resource of CCCL's concept of
//! it, for RMM, libcudf and other C++.
//!
//! | module | functions |
//! |---|---|
//! | [`library`], [`remedies`] | versions, the last error, and what would have helped |
//! | [`resource`] | handles: retain, release, compare, name, properties, upstream |
//! | [`allocate`] | allocation and free, in stream order and synchronous |
//! | [`base`], [`suballocators`], [`adaptors`], [`spec`] | making resources |
//! | [`callbacks`] | resources made of functions of the caller |
//! | [`pool`], [`statistics`], [`tracking`] | what a resource knows and does beyond allocation |
//! | [`trim`], [`sleep`], [`reservation`], [`pressure`] | giving memory back, and keeping some |
//! | [`stream`] | streams and how long they live |
//! | [`registry`] | the current resource of each device |
//! | [`torch`], [`ort`] | the functions that `PyTorch` and ONNX Runtime load |
//!
//! # Safety
//!
//! One contract holds for all functions, so that it is written here and not with each. The proofs
//! (`// SAFETY:`) cite its clauses by name.
//!
//! - **Handles.** A pointer to a [`ResourceHandle`], a [`StreamHandle`](stream::StreamHandle) or a
//!   [`Registered`](pressure::Registered) callback, as an argument or in a structure, is null or
//!   one that a function of this crate returned, and is live: a reference to it is not released
//!   before the call returns. A release ends a reference that the caller has. The context of a
//!   table that [`rmm_rs_resource_callbacks`](callbacks::rmm_rs_resource_callbacks) wrote is such a
//!   handle.
//! - **Pointers.** A pointer to a result is null, or aligned and valid for a write during the call.
//! - **Structures.** A pointer to a structure is null, or the structure may be read during the
//!   call, and written to if it is a result. It has as many bytes as its first field says: a number
//!   that `sizeof` cannot be is refused. No other thread writes to it meanwhile.
//! - **Texts.** A text is null, or ends with a zero byte and is not changed during the call. A
//!   buffer is null, or has as many bytes as its capacity says, which may be written to during the
//!   call.
//! - **Streams.** A stream handle is 0, 1 or 2, or names a stream that exists until the function
//!   returns. If it was [adopted](stream::rmm_rs_stream_adopt) until it is released, or the
//!   resource's [policy](pool::rmm_rs_pool_stream_policy) is to keep streams, it exists until it is
//!   released or forgotten. A stream that is passed to the functions of [`torch`] is never
//!   destroyed. The stream that [`ort`] has [bound](ort::rmm_rs_ort_bind_stream) counts as passed
//!   to its functions that allocate and free. No capture of a stream begins or ends on one thread
//!   during a call that another thread makes with it.
//! - **Ends of streams.** Each release or forgetting of a stream happens-before a call with its
//!   handle, or happens-after the return: if two threads do these, something synchronizes them. The
//!   driver does, between the destruction of a stream and the creation of the next with its handle.
//! - **Frees.** Memory that is freed was allocated from an equal resource with this size and
//!   alignment, was not freed before, and no work uses it but such as comes before the free in the
//!   order of the stream, or of one that was [recorded](torch::rmm_rs_torch_record_stream) for it;
//!   or, for a synchronous free, such as has completed. A launch of a graph is such work.
//! - **Sleep.** While a pool sleeps its memory is not used, as
//!   [`rmm_rs_pool_sleep`](sleep::rmm_rs_pool_sleep) says.
//! - **Pools of the driver.** A `cudaMemPool_t` exists until the resource over it and all its
//!   memory are gone, was not imported from another process, and the current device has access to
//!   its memory, now and later.
//! - **Callbacks.** A function of the caller has the type that its declaration says. It may be
//!   called with its context on any thread, on several at once, until its `release` is called,
//!   once, or without end if there is none. The functions of a [table](callbacks::Callbacks) and
//!   its properties keep the contract of [`SynchronousResource`](rmm_core::SynchronousResource),
//!   and, if it is flagged as stream-ordered, of [`Resource`](rmm_core::Resource).
//!
//! What a function does with a null pointer, an alignment that is not a power of two, a size that
//! overflows, a text that is not UTF-8 or a number that is not one of the constants is not
//! undefined: it is refused.
#![expect(
    clippy::missing_safety_doc,
    reason = "one contract holds for all functions, at the top of the crate"
)]

pub mod adaptors;
pub mod allocate;
pub mod base;
pub mod callbacks;
mod failure;
mod find;
mod guard;
pub mod library;
pub mod ort;
pub mod pool;
pub mod pressure;
pub mod registry;
pub mod remedies;
pub mod reservation;
pub mod resource;
mod sized;
pub mod sleep;
pub mod spec;
pub mod statistics;
pub mod status;
pub mod stream;
mod streams;
pub mod suballocators;
mod text;
pub mod torch;
pub mod tracking;
pub mod trim;

pub use resource::ResourceHandle;
