//! The C interface of rmm-rs: memory resources for C, C++ and everything that calls C.
//!
//! The header `include/rmm_rs.h` is generated from this crate, and the libraries are
//! `librmm_rs.so.1` and `librmm_rs.a`. `include/rmm_rs.hpp` makes a resource of CCCL's concept of
//! it, for RMM, libcudf and other C++.
//!
//! ```text
//! frameworks   torch, ort, client                 functions for frameworks, which free by pointer
//!     |
//!   calls      allocate, base, pool, trim, ..     functions that make a resource, or use one
//!     |
//!  streams     stream, capture                    streams, and how long they live
//!     |
//!  handle      resource, library, status          what C holds: handles, structures, errors
//! ```
//!
//! Each folder uses those below it. A new function is in `frameworks` if it bears a framework's
//! name or is about a client, in `streams` if it is about a stream or a capture, in `handle` if it
//! is about a handle or an error whatever the resource does, and else in `calls`.
//!
//! # Safety
//!
//! One contract holds for all functions, so that it is written here and not with each. The proofs
//! (`// SAFETY:`) cite its clauses by name.
//!
//! - **Handles.** A pointer to a [`ResourceHandle`], a
//!   [`StreamHandle`](streams::stream::StreamHandle), a
//!   [`ClientHandle`](frameworks::client::ClientHandle), a
//!   [`Registered`](calls::pressure::Registered) callback, an
//!   [`SegmentCallback`](calls::segments::SegmentCallback), an
//!   [`Imported`](calls::sharing::Imported) memory or an [`Elastic`](calls::elastic::Elastic) one,
//!   as an argument or in a structure, is
//!   null or one that a function of this crate returned, and is live: a reference to it is not
//!   released before the call returns. A release ends a reference that the caller has. The context
//!   of a table that [`rmm_rs_resource_callbacks`](calls::callbacks::rmm_rs_resource_callbacks)
//!   wrote is such a handle.
//! - **Pointers.** A pointer to a result is null, or aligned and valid for a write during the call.
//! - **Structures.** A pointer to a structure is null, or the structure may be read during the
//!   call, and written to if it is a result. It has as many bytes as its first field says: a number
//!   that `sizeof` cannot be is refused. No other thread writes to it meanwhile.
//! - **Arrays.** An array is null, or has as many elements as its count says, which may be read and
//!   are not changed during the call.
//! - **Texts.** A text is null, or ends with a zero byte and is not changed during the call. A
//!   buffer is null, or has as many bytes as its capacity says, which may be written to during the
//!   call.
//! - **Streams.** A stream handle is 0, 1 or 2, or names a stream that exists until the function
//!   returns. If it was [adopted](streams::stream::rmm_rs_stream_adopt) until it is released, or
//!   the resource's [policy](calls::pool::rmm_rs_pool_stream_policy) is to keep streams, it exists
//!   until it is released or forgotten. A stream that is passed to the functions of
//!   [`torch`](frameworks::torch) is never destroyed. The stream that [`ort`](frameworks::ort) has
//!   [bound](frameworks::ort::rmm_rs_ort_bind_stream) counts as passed to its functions that
//!   allocate and free. No capture of a stream begins or ends on one thread during a call that
//!   another thread makes with it.
//! - **Ends of streams.** Each release or forgetting of a stream happens-before a call with its
//!   handle, or happens-after the return: if two threads do these, something synchronizes them. The
//!   driver does, between the destruction of a stream and the creation of the next with its handle.
//! - **Frees.** Memory that is freed was allocated from an equal resource with this size and
//!   alignment, was not freed before, and no work uses it but such as comes before the free in the
//!   order of the stream, or of one that was
//!   [recorded](frameworks::client::rmm_rs_client_record_stream) for it; or, for a synchronous
//!   free, such as has completed. A launch of a graph is such work. The stream of
//!   [`rmm_rs_client_free`](frameworks::client::rmm_rs_client_free) is the one that the block was
//!   allocated for. A recording happens-before the free.
//! - **Clients.** A stream that is passed to a function of a [client](frameworks::client) exists
//!   until it is released or [forgotten](streams::stream::rmm_rs_stream_forget). A block of a
//!   client is freed by the functions of [`frameworks`] alone. A stream that was
//!   recorded for a block only while it was captured uses the block in that graph alone. Work of a
//!   blocking stream that uses a block of the legacy default stream is recorded too, unless it is
//!   complete at the free or work of the legacy stream was enqueued after it: a free is no work,
//!   and puts nothing in order.
//! - **Pieces.** An array of [pieces](calls::sharing::ExportPiece) is null, or has as many as its
//!   count says, which no other thread writes to during the call. A descriptor in it is not closed
//!   meanwhile. What is released was stored by [`rmm_rs_export`](calls::sharing::rmm_rs_export)
//!   with this count, was not released before, and its descriptors are those of the export, open,
//!   or -1. No work uses imported memory when its handle is released but such as this library's
//!   driver can wait for.
//! - **Leases.** Memory of an owner that is [detached](calls::lease::rmm_rs_lease_detach) is used
//!   by no work, also of pools over it and of graphs, before it is attached.
//! - **Sleep.** While a pool sleeps its memory is not used, as
//!   [`rmm_rs_pool_sleep`](calls::sleep::rmm_rs_pool_sleep) says. The memory that
//!   [`rmm_rs_pool_read_asleep`](calls::sleep::rmm_rs_pool_read_asleep) copies to is null, or has
//!   as many bytes as it says, which no other thread uses during the call.
//! - **Checkpoints.** A checkpoint is null or one that
//!   [`rmm_rs_client_checkpoint`](frameworks::client::rmm_rs_client_checkpoint) stored, and was not
//!   released. When it is restored, all work that uses the pool's memory is complete or comes
//!   before in the order of the stream, but for launches of graphs that the caller puts in order,
//!   and no other thread uses the pool or its memory. A block that was freed by it and is not
//!   allocated afterwards is not freed again.
//! - **Graphs.** When the memory of graphs is
//!   [released](calls::graphs::rmm_rs_pool_release_graph_memory), every launch of a graph that was
//!   captured with the pool's memory has completed, and none of them is launched again. A block
//!   that is [released](frameworks::client::rmm_rs_graph_block_release) was stored by
//!   [`rmm_rs_client_free_for_graph`](frameworks::client::rmm_rs_client_free_for_graph), was not
//!   released before, and all work that uses it is complete; no graph that uses it is launched
//!   again.
//! - **Elastic memory.** A range of [elastic memory](calls::elastic) that is decommitted, or
//!   released with it, is used by no work but such as was
//!   [recorded](calls::elastic::rmm_rs_elastic_record_stream) for it or has completed, and is not
//!   used before it is committed again. When the uses of graphs are
//!   [ended](calls::elastic::rmm_rs_elastic_end_graph_uses), no graph that uses the memory runs,
//!   and none is launched that uses what is decommitted then.
//! - **Pools of the driver.** A `cudaMemPool_t` exists until the resource over it and all its
//!   memory are gone, was not imported from another process, and the current device has access to
//!   its memory, now and later.
//! - **Callbacks.** A function of the caller has the type that its declaration says. It may be
//!   called with its context on any thread, on several at once, until its `release` is called,
//!   once, or without end if there is none. A function that visits blocks is called by the thread
//!   that walks, until the walk returns. The functions of a [table](calls::callbacks::Callbacks)
//!   and its properties keep the contract of
//!   [`SynchronousResource`](rmm_core::SynchronousResource), and, if it is flagged as
//!   stream-ordered, of [`Resource`](rmm_core::Resource).
//!
//! What a function does with a null pointer, an alignment that is not a power of two, a size that
//! overflows, a text that is not UTF-8 or a number that is not one of the constants is not
//! undefined: it is refused.
#![expect(
    clippy::missing_safety_doc,
    reason = "one contract holds for all functions, at the top of the crate"
)]

pub mod calls;
pub mod frameworks;
pub mod handle;
pub mod streams;

pub use handle::resource::ResourceHandle;
