//! Frees of clients' blocks, and the streams that are recorded for them.

use std::ffi::c_void;

use rmm_core::sys::CuStream;
use rmm_core::{CaptureScope, DevicePtr, StreamRef};

use super::block::Block;
use super::pending::{DeferredBlock, RecordedStream};
use super::settle;
use super::table::{self, FreedBlock};
use crate::handle::failure::Failure;
use crate::streams;

/// Where a free stands in the order of work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FreeOrder {
    /// Behind what was enqueued on the block's own stream.
    Own,
    /// Behind what was enqueued on this stream, which exists until it is forgotten.
    Kept(CuStream),
    /// Behind what was enqueued on this stream, which exists during the call.
    Unknown(CuStream),
    /// Behind all work of the block's device, for which the thread waits.
    Device,
}

/// Frees a block, whichever device is current. If streams were recorded for it that `order` does
/// not cover, it is pending until they are done. `check` is called with the block first. Null is
/// allowed.
///
/// # Errors
/// If no such block is allocated, and that of `check`. If `order` names an unknown stream or the
/// device, and cannot be kept: then the block stays allocated. A free in the order of the block's
/// own stream that is impossible now is tried again at the client's next calls.
///
/// # Safety
/// The clauses on streams and frees.
#[inline]
pub(crate) unsafe fn free(
    pointer: *mut c_void,
    order: FreeOrder,
    check: impl FnOnce(&Block) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if pointer.is_null() {
        return Ok(());
    }
    let address = pointer.expose_provenance();
    let freed = table::free(address, |block| {
        check(block)?;
        if let FreeOrder::Kept(stream) = order
            && (stream != block.stream || stream == CuStream::PER_THREAD)
        {
            let id_of = |stream: StreamRef<'_>| stream.id();
            // SAFETY: the caller's contract.
            let id = unsafe { streams::with_known(stream, id_of) };
            (block.stream, block.stream_id) = (stream, id);
        }
        Ok(block.stream_id)
    })?;
    match freed {
        FreedBlock::Ready(mut block) => {
            if let (FreeOrder::Kept(stream), None) = (order, block.stream_id) {
                // The stream is new here.
                let id_of = |stream: StreamRef<'_>| stream.id();
                // SAFETY: the caller's contract.
                let id = unsafe { streams::with_kept(stream, id_of) };
                block.stream_id = id.ok();
            }
            // SAFETY: the caller's contract; the block left the table.
            unsafe { free_ready(block, address, order) }
        }
        FreedBlock::Waits(waiting) => {
            let client = waiting.client;
            match client.device.enter() {
                Ok(_current) => {
                    settle::begin_wait(&client, address, waiting.recorded);
                }
                Err(_) => {
                    client.pending.defer(DeferredBlock { address, recorded: waiting.recorded });
                }
            }
            settle::poll(&client);
            Ok(())
        }
    }
}

/// Frees a block that left the table and that no recorded stream uses.
///
/// # Safety
/// As for [`free`]. The block was in the table under this address.
#[inline]
unsafe fn free_ready(block: Block, address: usize, order: FreeOrder) -> Result<(), Failure> {
    // PyTorch and ONNX Runtime free with any device current.
    let freed = block.client.device.enter().and_then(|_current| match order {
        FreeOrder::Own | FreeOrder::Kept(_) => settle::in_own_order(&block, address),
        // SAFETY: the caller's contract; the device is current.
        FreeOrder::Unknown(stream) => unsafe { free_on(&block, address, stream) },
        FreeOrder::Device => {
            settle::synchronize(None)?;
            // SAFETY: 1. It left the table, and its device is current. 2. The device has done all
            // work that was enqueued before, and by the clause on frees no later work uses it.
            unsafe { block.deallocate_sync(DevicePtr::new(address as u64)) }
        }
    });
    match freed {
        Ok(()) => {
            settle::poll(&block.client);
            Ok(())
        }
        Err(failure) => stays(block, address, order, failure),
    }
}

/// # Safety
/// The stream exists during the call. The block left the table, its uses come before in the order
/// of the stream, and its device is current.
unsafe fn free_on(block: &Block, address: usize, stream: CuStream) -> Result<(), Failure> {
    let free = |stream: StreamRef<'_>| {
        // SAFETY: the caller's contract.
        unsafe { block.deallocate(stream, DevicePtr::new(address as u64)) }
    };
    // SAFETY: the caller's contract.
    unsafe { streams::with(stream, || false, free) }?
}

/// Enters a block again that could not be freed: as pending, if the next calls can free it.
#[cold]
fn stays(
    mut block: Block,
    address: usize,
    order: FreeOrder,
    failure: Failure,
) -> Result<(), Failure> {
    match order {
        FreeOrder::Own | FreeOrder::Kept(_) => {
            block.is_pending = true;
            block.client.counts.free_later(block.size);
            block.client.pending.add();
            settle::keep_pending(block, address);
            Ok(())
        }
        FreeOrder::Unknown(_) | FreeOrder::Device => {
            drop(table::enter(address, block));
            Err(failure)
        }
    }
}

/// Notes that a stream uses a block. The block's own is left out at the free. Memory of others is
/// not known here: frameworks record uses of all tensors.
///
/// # Errors
/// If the driver does not know the stream.
///
/// # Safety
/// The stream is a default stream, or exists until it is forgotten.
pub(crate) unsafe fn record(pointer: *mut c_void, stream: CuStream) -> Result<(), Failure> {
    let address = pointer.addr();
    let Some(device) = table::with_allocated(address, |block| block.client.device) else {
        return Ok(());
    };
    let is_announced = CaptureScope::is_announced();
    // A default stream is that of the memory's device.
    let _current = if is_announced { device.enter()? } else { None };
    let record = |stream: StreamRef<'_>| RecordedStream {
        handle: stream.as_raw(),
        id: stream.id(),
        context: stream.own_context(),
        is_captured: is_announced && stream.is_capturing().unwrap_or(false),
    };
    // SAFETY: the caller's contract.
    let stream = unsafe { streams::with_kept(stream, record) }?;
    table::with_allocated(address, |block| {
        match block.recorded.iter_mut().find(|known| known.id == stream.id) {
            Some(known) => known.is_captured &= stream.is_captured,
            None => block.recorded.push(stream),
        }
    });
    Ok(())
}
