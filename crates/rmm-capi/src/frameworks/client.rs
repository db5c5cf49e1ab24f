//! Clients: frameworks that free by pointer alone.
//!
//! ```text
//!   client, torch, ort                  functions of C
//!          |
//!    allocate, free, checkpoint   walk  what they do, and graph_block
//!        |      |      |
//!        |    settle   |        pending blocks go back
//!        |      |      |
//!         table                 address -> block
//!           |
//!         block                 a client, its resources and blocks
//!        |     |
//!     counts  pending           statistics; blocks that wait for recorded streams
//! ```

pub(crate) mod allocate;
pub(crate) mod block;
pub mod checkpoint;
pub mod counts;
pub(crate) mod free;
pub mod graph_block;
mod pending;
pub(crate) mod per_device;
pub(crate) mod settle;
mod spin;
pub(crate) mod table;
pub mod walk;

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmm_core::sys::CuStream;

use self::allocate::RequestStream;
pub use self::block::ClientHandle;
use self::checkpoint::{CheckpointHandle, rmm_rs_checkpoint_visit_function};
use self::counts::ClientStatistics;
use self::free::FreeOrder;
use self::graph_block::GraphBlockHandle;
use self::walk::{BlockList, ClientBlock, rmm_rs_client_visit_function};
use crate::frameworks::device;
use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::library::{clear, clear_mut};
use crate::handle::resource::{self, ResourceHandle};
use crate::handle::sized;
use crate::handle::status::{RMM_RS_OK, Status};

/// The client behind a pointer of C.
///
/// # Safety
/// `client` is null or live for `'a`.
unsafe fn borrow<'a>(client: *const ClientHandle) -> Result<&'a ClientHandle, Failure> {
    // SAFETY: the caller's contract.
    unsafe { client.as_ref() }.ok_or_else(|| Failure::invalid("the client is null"))
}

/// A counted reference to a resource of C, if it is not null.
///
/// # Safety
/// `resource` is null or live during the call.
unsafe fn share(resource: *const ResourceHandle) -> Option<Arc<ResourceHandle>> {
    if resource.is_null() {
        return None;
    }
    // SAFETY: it came from `Arc::into_raw`, and is live by the caller's contract.
    unsafe { Arc::increment_strong_count(resource) };
    // SAFETY: as for the line above, which has made the reference that is taken here.
    Some(unsafe { Arc::from_raw(resource) })
}

/// Makes a client for a device. Memory comes from `resource`, or from the device's current resource
/// at each call if it is null: one for which the program set none gets what the environment
/// variable `RMM_RESOURCE` says, or else `pool`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_new(
    device: i32,
    resource: *const ResourceHandle,
    out: *mut *const ClientHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear(out) };
    guard::status(|| {
        if out.is_null() {
            return Err(Failure::invalid("the place for the client is null"));
        }
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let own = unsafe { share(resource) };
        let client = Arc::new(ClientHandle::new(device::of(device)?, own));
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(Arc::into_raw(client)) };
        Ok(())
    })
}

/// Takes one more reference to the client, and returns it. Null stays null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_retain(client: *const ClientHandle) -> *const ClientHandle {
    // SAFETY: by the clause on handles, `client` is null or live during the call.
    if let Some(known) = unsafe { client.as_ref() } {
        known.references.fetch_add(1, Ordering::Relaxed);
        // SAFETY: it came from `Arc::into_raw`, and is live by the clause on handles.
        unsafe { Arc::increment_strong_count(client) };
    }
    client
}

/// Releases a reference. The last one waits for pending blocks, as `rmm_rs_client_settle` does.
/// Blocks that are allocated stay so, and can be freed. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_release(client: *const ClientHandle) {
    guard::value((), || {
        if client.is_null() {
            return;
        }
        // SAFETY: it came from `Arc::into_raw`, and by the clause on handles the reference is the
        // caller's, and ends here.
        let client = unsafe { Arc::from_raw(client) };
        if client.references.fetch_sub(1, Ordering::AcqRel) == 1 {
            // What does not come back now does so when another of the client's blocks is freed.
            let _ignored = settle::wait(&client);
        }
    });
}

/// Allocates a block for use in the order of the stream: from `pool`, or from the client's resource
/// if it is null. Stores the address in `out`; no bytes are null. The client frees a few pending
/// blocks first. A request that fails for want of memory waits for all of them, and is tried once
/// more. `RMM_RS_OUT_OF_MEMORY` also if the memory fraction does not allow it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_allocate(
    client: *const ClientHandle,
    pool: *const ResourceHandle,
    stream: *mut c_void,
    bytes: usize,
    out: *mut *mut c_void,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::status(|| {
        if client.is_null() {
            return Err(Failure::invalid("the client is null"));
        }
        if out.is_null() {
            return Err(Failure::invalid("the place for the address is null"));
        }
        // SAFETY: it came from `Arc::into_raw`, and is live by the clause on handles; the reference
        // stays the caller's.
        let client = ManuallyDrop::new(unsafe { Arc::from_raw(client) });
        // SAFETY: by the clause on handles, `pool` is null or live during the call.
        let pool = unsafe { share(pool) };
        let stream = RequestStream::Kept(CuStream::from_raw(stream));
        // SAFETY: by the clause on clients, the stream exists until it is forgotten.
        let pointer = unsafe { allocate::allocate(&client, pool, stream, bytes) }?;
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(pointer) };
        Ok(())
    })
}

/// Stores a new reference to the resource of requests that name none: the client's own, or the
/// device's current one, which is made if the device has none yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_resource(
    client: *const ClientHandle,
    out: *mut *const ResourceHandle,
) -> Status {
    let find = || {
        // SAFETY: by the clause on handles, `client` is null or live during the call.
        let client = unsafe { borrow(client) }?;
        match &client.own {
            Some(own) => Ok(Arc::clone(own)),
            None => Ok(Arc::new(ResourceHandle::base(client.device.resource()?))),
        }
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make_shared(out, find) }
}

/// Frees a block of any client, from any thread, whichever device is current: in the order of its
/// stream, to the resource that it came from. If streams were recorded for it, it is pending until
/// they have done what was enqueued on them before; after a capture, if one is announced, or one of
/// them is captured. Null is allowed. `RMM_RS_INVALID_ARGUMENT` if no client has this block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_free(pointer: *mut c_void) -> Status {
    guard::free(|| {
        // SAFETY: the clauses on frees and clients.
        let freed = unsafe { free::free(pointer, FreeOrder::Own, |_| Ok(())) };
        freed.map_or_else(guard::note, |()| RMM_RS_OK)
    })
}

/// Frees a block in a capture whose graph uses it: it counts as freed, and its memory stays
/// allocated until `rmm_rs_graph_block_release`. `RMM_RS_INVALID_ARGUMENT` if no client has this
/// block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_free_for_graph(
    pointer: *mut c_void,
    out: *mut *const GraphBlockHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear(out) };
    guard::status(|| {
        if out.is_null() {
            return Err(Failure::invalid("the place for the block is null"));
        }
        let block = Box::new(GraphBlockHandle::new(pointer)?);
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(Box::into_raw(block)) };
        Ok(())
    })
}

/// Gives the memory of such a block back, once nothing uses it any more. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_graph_block_release(block: *const GraphBlockHandle) {
    guard::value((), || {
        if !block.is_null() {
            // SAFETY: it came from `Box::into_raw`, and by the clause on graphs this is its last
            // use.
            let block = unsafe { Box::from_raw(block.cast_mut()) };
            // SAFETY: the clause on graphs. Memory that cannot go back stays allocated.
            let _ignored = unsafe { block.release() };
        }
    });
}

/// Notes that work of a stream, of any device, uses the block, so that its free waits for that work
/// too. A default stream is that of the block's device. Nothing happens if the stream is the
/// block's own, or the pointer is null or no client's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_record_stream(
    pointer: *mut c_void,
    stream: *mut c_void,
) -> Status {
    // SAFETY: by the clause on clients, the stream exists until it is forgotten.
    guard::status(|| unsafe { free::record(pointer, CuStream::from_raw(stream)) })
}

/// Writes what is known of the block at this address, allocated or pending.
/// `RMM_RS_INVALID_ARGUMENT` if no client has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_find(
    pointer: *const c_void,
    out: *mut ClientBlock,
) -> Status {
    guard::status(|| {
        let unknown =
            || Failure::invalid(format!("no memory at {pointer:p} was allocated by a client"));
        let block = walk::find(pointer.addr()).ok_or_else(unknown)?;
        // SAFETY: by the clause on structures, `out` is null or as large as it says, and writable.
        unsafe { sized::write("rmm_rs_client_block", out, &block) }
    })
}

/// Calls `visit` with each block that the client has allocated or that is pending, by address:
/// those from `pool`, or all if it is null. A copy is walked, so `visit` may call every function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_walk(
    client: *const ClientHandle,
    pool: *const ResourceHandle,
    visit: rmm_rs_client_visit_function,
    context: *mut c_void,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `client` is null or live during the call.
        let client = unsafe { borrow(client) }?;
        let visit = visit.ok_or_else(|| Failure::invalid("the function is null"))?;
        // SAFETY: by the clause on handles, `pool` is null or live during the call.
        let blocks = BlockList::of(client, unsafe { pool.as_ref() });
        // SAFETY: the clause on callbacks.
        unsafe { blocks.visit(visit, context) };
        Ok(())
    })
}

/// Notes which blocks of a pool with `RMM_RS_POOL_GRAPHS` are allocated, and what the client knows
/// of them, after frees that other threads have in progress. `RMM_RS_REFUSED` for another pool, and
/// while a block of it is pending; `RMM_RS_NOT_READY` if such a free does not end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_checkpoint(
    client: *const ClientHandle,
    pool: *const ResourceHandle,
    out: *mut *const CheckpointHandle,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear(out) };
    guard::status(|| {
        if client.is_null() {
            return Err(Failure::invalid("the client is null"));
        }
        if out.is_null() {
            return Err(Failure::invalid("the place for the checkpoint is null"));
        }
        // SAFETY: it came from `Arc::into_raw`, and is live by the clause on handles; the reference
        // stays the caller's.
        let client = ManuallyDrop::new(unsafe { Arc::from_raw(client) });
        // SAFETY: by the clause on handles, `pool` is null or live during the call.
        let pool = unsafe { share(pool) };
        let pool = pool.ok_or_else(|| Failure::invalid("the pool is null"))?;
        let checkpoint = Box::new(CheckpointHandle::new(&client, pool)?);
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(Box::into_raw(checkpoint)) };
        Ok(())
    })
}

/// Makes exactly the blocks of a checkpoint allocated, at their addresses: all that are allocated
/// now are freed first, in the order of the stream, which is kept and waits for the streams that
/// were recorded for them, and the rest of the pool's memory is that stream's afterwards. Calls
/// `visit`, unless it is null, with each block that was allocated before (`is_live` 0), and then
/// with each that is allocated now (`is_live` 1). After an error nothing has changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_checkpoint_restore(
    checkpoint: *const CheckpointHandle,
    stream: *mut c_void,
    visit: rmm_rs_checkpoint_visit_function,
    context: *mut c_void,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on checkpoints, it is null or live during the call.
        let checkpoint = unsafe { checkpoint.as_ref() };
        let checkpoint = checkpoint.ok_or_else(|| Failure::invalid("the checkpoint is null"))?;
        // SAFETY: the clauses on checkpoints and clients.
        let restored = unsafe { checkpoint.restore(CuStream::from_raw(stream)) }?;
        if let Some(visit) = visit {
            // SAFETY: the clause on callbacks.
            unsafe { restored.visit(visit, context) };
        }
        Ok(())
    })
}

/// Releases a checkpoint. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_checkpoint_release(checkpoint: *const CheckpointHandle) {
    guard::value((), || {
        if !checkpoint.is_null() {
            // SAFETY: it came from `Box::into_raw`, and by the clause on checkpoints this is its
            // last use.
            drop(unsafe { Box::from_raw(checkpoint.cast_mut()) });
        }
    });
}

/// Writes the statistics of the client. They are of one time, and so are the peaks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_statistics_get(
    client: *const ClientHandle,
    out: *mut ClientStatistics,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `client` is null or live during the call.
        let statistics = unsafe { borrow(client) }?.counts.read();
        // SAFETY: by the clause on structures, `out` is null or as large as it says, and writable.
        unsafe { sized::write("rmm_rs_client_statistics", out, &statistics) }
    })
}

/// Lowers each `peak` of the statistics to its `current`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_reset_peaks(client: *const ClientHandle) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `client` is null or live during the call.
        unsafe { borrow(client) }?.counts.reset_peaks();
        Ok(())
    })
}

/// Sets each `allocated` and `freed` of the statistics to 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_reset_accumulated(client: *const ClientHandle) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `client` is null or live during the call.
        unsafe { borrow(client) }?.counts.reset_accumulated();
        Ok(())
    })
}

/// Returns the pending blocks to their resources that no stream uses any more. With `wait` this
/// thread waits for the streams that use the others; `RMM_RS_NOT_READY` then if a capture goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_settle(client: *const ClientHandle, wait: bool) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `client` is null or live during the call.
        let client = unsafe { borrow(client) }?;
        if wait {
            return settle::wait(client);
        }
        settle::poll_all(client);
        Ok(())
    })
}

/// Limits the bytes that the client may have allocated, each request rounded up to a multiple of
/// 512, to a fraction of the device's memory, from 0 to 1. Pending blocks do not count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_set_memory_fraction(
    client: *const ClientHandle,
    fraction: f64,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `client` is null or live during the call.
        unsafe { borrow(client) }?.set_memory_fraction(fraction)
    })
}

/// Stores the fraction that was set last, or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_client_memory_fraction(
    client: *const ClientHandle,
    out: *mut f64,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `client` is null or live during the call.
        let fraction = unsafe { borrow(client) }?.memory_fraction();
        if out.is_null() {
            return Err(Failure::invalid("the place for the fraction is null"));
        }
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(fraction) };
        Ok(())
    })
}

const _: () = {
    // Any thread may use and release a client.
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<ClientHandle>();
};
