//! How pending blocks go back to their resources.
//!
//! 1. At the free, an event is recorded on each recorded stream; if a capture goes on, at the first
//!    call after it.
//! 2. When all of a block's events are complete it leaves the table.
//! 3. It is freed in the order of its own stream.

use std::sync::Arc;

use rmm_core::sys::CuStream;
use rmm_core::{
    CaptureScope, Context, CudaEvent, CudaStream, DevicePtr, RelaxedCapture, StreamId, StreamRef,
    synchronize_unless_captured,
};

use super::block::{Block, ClientHandle};
use super::pending::{DeferredBlock, RecordedStream};
use super::table;
use crate::handle::failure::Failure;
use crate::handle::status::RMM_RS_NOT_READY;

/// Returns a few pending blocks that no stream uses any more, the oldest of each stream first.
/// Does not wait. Nothing while a capture is announced.
#[inline]
pub(crate) fn poll(client: &ClientHandle) {
    if !client.pending.is_empty() {
        return_complete(client, false);
    }
}

/// Returns all pending blocks that no stream uses any more. Does not wait. Nothing while a
/// capture is announced.
pub(crate) fn poll_all(client: &ClientHandle) {
    if !client.pending.is_empty() {
        return_complete(client, true);
    }
}

/// Waits for the streams that use the blocks which are pending now, and returns the blocks.
///
/// # Errors
/// If a capture goes on; the driver's, such as that of work that failed.
pub(crate) fn wait(client: &ClientHandle) -> Result<(), Failure> {
    if client.pending.is_empty() {
        return Ok(());
    }
    if CaptureScope::is_announced() {
        return Err(captured());
    }
    let _current = client.device.enter()?;
    let is_settled = resume_deferred(client);
    let end = client.pending.next_use();
    loop {
        // Nothing comes back while one is announced.
        if CaptureScope::is_announced() {
            return Err(captured());
        }
        return_complete(client, true);
        let Some(event) = client.pending.oldest_before(end) else { break };
        let _relaxed = RelaxedCapture::enter();
        event.synchronize()?;
    }
    // Blocks that another thread has taken out are on their way.
    let _are_returned = client.pending.await_returns();
    if is_settled { Ok(()) } else { Err(captured()) }
}

#[cold]
fn captured() -> Failure {
    let text = "a capture goes on: freed memory that other streams use comes back after it";
    Failure::plain(RMM_RS_NOT_READY, text.to_owned())
}

#[cold]
fn return_complete(client: &ClientHandle, all: bool) {
    if CaptureScope::is_announced() {
        return;
    }
    // If the device cannot be made current the blocks stay pending.
    let Ok(_current) = client.device.enter() else { return };
    resume_deferred(client);
    let Some(taken) = client.pending.take_complete(all) else { return };
    for &address in &taken.blocks {
        return_block(client, address);
    }
}

/// Makes the deferred blocks wait for events, unless a capture goes on. Returns whether none is
/// left. The client's device is current.
fn resume_deferred(client: &ClientHandle) -> bool {
    let mut taken = client.pending.take_deferred();
    let mut is_settled = true;
    for DeferredBlock { address, recorded } in std::mem::take(&mut taken.blocks) {
        is_settled &= begin_wait(client, address, recorded);
    }
    is_settled
}

/// Records an event on each stream that uses a pending block, or defers that until the captures are
/// over; also if the driver refuses. Returns whether it was not deferred. The client's device is
/// current.
pub(crate) fn begin_wait(
    client: &ClientHandle,
    address: usize,
    mut recorded: Vec<RecordedStream>,
) -> bool {
    let is_announced = CaptureScope::is_announced();
    if is_announced {
        // A capture joins the streams that are captured in it, so that its end comes after their
        // uses.
        recorded.retain(|stream| !(stream.is_captured && may_be_captured(stream)));
    }
    if !is_announced && !recorded.iter().any(may_be_captured) {
        let events: Result<Vec<_>, _> =
            recorded.iter().map(|stream| record_event(client, stream)).collect();
        if let Ok(events) = events {
            let events: Vec<_> = events.into_iter().flatten().collect();
            if events.is_empty() {
                return return_block(client, address);
            }
            client.pending.wait_for(address, events);
            return true;
        }
    }
    client.pending.defer(DeferredBlock { address, recorded });
    false
}

/// Calls `act` with the stream that a handle named when it had this id. `None` if it does not name
/// it any more: the stream was forgotten, or is another thread's own default stream.
fn with_same<R>(handle: CuStream, id: StreamId, act: impl FnOnce(StreamRef<'_>) -> R) -> Option<R> {
    if id == StreamRef::legacy_of_own_work().id() {
        return Some(act(StreamRef::legacy_of_own_work()));
    }
    let act = |stream: StreamRef<'_>| (stream.id() == id).then(|| act(stream));
    // SAFETY: by the clauses on clients and on ends of streams, the stream exists until it is
    // forgotten, and that happens-before this call or happens-after its return.
    unsafe { StreamRef::with_announced(handle, act) }.ok().flatten()
}

/// Whether a stream is captured, or the driver cannot say.
fn may_be_captured(stream: &RecordedStream) -> bool {
    let may_be = |stream: StreamRef<'_>| {
        // SAFETY: the stream exists while it is borrowed.
        unsafe { CudaStream::may_be_capturing_raw(stream.as_raw()) }
    };
    with_same(stream.handle, stream.id, may_be).unwrap_or(false)
}

/// Makes a stream wait for what was enqueued on recorded streams.
///
/// # Errors
/// If one of them is captured; the driver's.
pub(super) fn order_behind(
    stream: StreamRef<'_>,
    recorded: &[RecordedStream],
) -> Result<(), Failure> {
    for earlier in recorded {
        if may_be_captured(earlier) {
            // That capture's own use comes before its end.
            if earlier.is_captured {
                continue;
            }
            return Err(captured());
        }
        match with_same(earlier.handle, earlier.id, |earlier| stream.wait_for(earlier)) {
            Some(ordered) => ordered?,
            None => synchronize(earlier.context)?,
        }
    }
    Ok(())
}

/// Records an event on a stream, or waits for its device if its handle does not name it any more.
fn record_event(
    client: &ClientHandle,
    stream: &RecordedStream,
) -> Result<Option<(StreamId, CudaEvent)>, Failure> {
    match with_same(stream.handle, stream.id, |stream| client.pending.record(stream)) {
        Some(event) => Ok(Some((stream.id, event?))),
        None => synchronize(stream.context).map(|()| None),
    }
}

/// Waits for all work of a context, or of the current one.
///
/// # Errors
/// If a capture goes on, which the wait would invalidate; the driver's.
pub(crate) fn synchronize(context: Option<Context>) -> Result<(), Failure> {
    let _entered = context.map(Context::enter).transpose()?;
    if synchronize_unless_captured()? { Ok(()) } else { Err(captured()) }
}

/// Frees a pending block that no recorded stream uses any more. If that fails it stays pending.
/// Returns whether it did not.
fn return_block(client: &ClientHandle, address: usize) -> bool {
    if let Some(block) = table::take_pending(address)
        && in_own_order(&block, address).is_err()
    {
        keep_pending(block, address);
        return false;
    }
    client.pending.remove();
    true
}

/// Enters a pending block into the table again. It is freed at the client's next calls.
pub(super) fn keep_pending(block: Block, address: usize) {
    let client = Arc::clone(&block.client);
    drop(table::enter(address, block));
    client.pending.defer(DeferredBlock { address, recorded: Vec::new() });
}

/// Frees a block that left the table in the order of its own stream; if that is gone, after a wait
/// for the device. The block's device is current.
///
/// # Errors
/// If that wait fails. Then the memory stays allocated.
#[inline]
pub(crate) fn in_own_order(block: &Block, address: usize) -> Result<(), Failure> {
    let pointer = DevicePtr::new(address as u64);
    let free = |stream: StreamRef<'_>| {
        // SAFETY: 1. By the caller's contract the block left the table and its device is current.
        // 2. By the clauses on frees and on clients, its uses come before in the order of its own
        // stream, which this is, or of the recorded ones, whose events are complete.
        unsafe { block.deallocate(stream, pointer) }
    };
    let freed = block.stream_id.and_then(|id| with_same(block.stream, id, free));
    freed.unwrap_or_else(|| after_device(block, pointer))
}

#[cold]
fn after_device(block: &Block, pointer: DevicePtr) -> Result<(), Failure> {
    synchronize(None)?;
    // SAFETY: 1. By the caller's contract the block left the table and its device is current. 2. By
    // the clause on frees no work uses it but such as was enqueued before, which is complete.
    unsafe { block.deallocate_sync(pointer) }
}
