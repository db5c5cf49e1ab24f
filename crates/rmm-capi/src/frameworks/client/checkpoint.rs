//! Checkpoints of a pool for graphs, with what the table knows of its blocks.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use rmm_adaptors::PoolCheckpoint;
use rmm_core::sys::CuStream;
use rmm_core::{StreamId, StreamRef};

use super::block::{Block, ClientHandle, Source};
use super::counts::BlockSize;
use super::pending::RecordedStream;
use super::settle;
use super::table;
use crate::handle::failure::Failure;
use crate::handle::find::pool_in;
use crate::handle::guard;
use crate::handle::resource::ResourceHandle;
use crate::handle::status::RMM_RS_NOT_READY;
use crate::streams;

/// What the table knew of a block.
#[derive(Clone, Copy, Debug)]
struct KnownBlock {
    address: usize,
    size: BlockSize,
    stream: CuStream,
    stream_id: Option<StreamId>,
}

/// Which blocks of a pool were live, and what a client knew of them.
#[derive(Debug)]
pub struct CheckpointHandle {
    client: Arc<ClientHandle>,
    pool: Arc<ResourceHandle>,
    live: PoolCheckpoint,
    known: Vec<KnownBlock>,
}

/// What a restore calls with the address of each block that was live before it, then with the
/// address and the requested bytes of each that is live now. It may call this library. An exception
/// of C++ that leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_checkpoint_visit_function = Option<
    unsafe extern "C-unwind" fn(
        pointer: *mut c_void,
        bytes: usize,
        is_live: u8,
        context: *mut c_void,
    ),
>;

/// The client's blocks of the pool.
///
/// # Errors
/// If one is pending: a checkpoint would lose what it waits for. If another thread returns a block
/// and does not end.
fn known_blocks(
    client: &Arc<ClientHandle>,
    pool: &ResourceHandle,
) -> Result<Vec<KnownBlock>, Failure> {
    settle::poll_all(client);
    // What another thread has taken out is pending until it returns it.
    let were_returned = client.pending.await_returns();
    let mut blocks = table::collect(|address, block| {
        let Block { size, stream, stream_id, is_pending, .. } = *block;
        let known = KnownBlock { address, size, stream, stream_id };
        let is_own = Arc::ptr_eq(&block.client, client);
        is_own.then(|| (known, block.source.clone(), is_pending))
    });
    // Not under the table's locks: resources are compared by functions of theirs.
    blocks.retain(|(_, source, _)| *source.any(client) == pool.any);
    // A block that another thread returns has left the table, and is freed later.
    if !(were_returned && client.pending.await_returns()) {
        let text = "another thread returns a block of this client, and has not ended";
        return Err(Failure::plain(RMM_RS_NOT_READY, text.to_owned()));
    }
    if blocks.iter().any(|&(.., is_pending)| is_pending) {
        let text = "a block of the pool waits for streams that were recorded: settle the client";
        return Err(Failure::refused(text));
    }
    Ok(blocks.into_iter().map(|(known, ..)| known).collect())
}

/// The streams that were recorded for blocks, each once.
fn recorded_streams(blocks: &[KnownBlock]) -> Vec<RecordedStream> {
    let mut found: Vec<RecordedStream> = Vec::new();
    for block in blocks {
        let of_block = table::with(block.address, |block| block.recorded.clone());
        for stream in of_block.unwrap_or_default() {
            match found.iter_mut().find(|known| known.id == stream.id) {
                Some(known) => known.is_captured &= stream.is_captured,
                None => found.push(stream),
            }
        }
    }
    found
}

impl CheckpointHandle {
    /// # Errors
    /// If the pool is not for graphs, or a block of it is pending.
    pub(crate) fn new(
        client: &Arc<ClientHandle>,
        pool: Arc<ResourceHandle>,
    ) -> Result<Self, Failure> {
        let known = known_blocks(client, &pool)?;
        let live = pool_in(&pool)?.checkpoint()?;
        Ok(Self { client: Arc::clone(client), pool, live, known })
    }

    /// Makes exactly these blocks live, in the pool and in the table.
    ///
    /// # Errors
    /// Those of [`rmm_adaptors::PoolMemoryResource::restore`]; if a block of the pool is pending,
    /// or a stream that was recorded for one is captured now.
    ///
    /// # Safety
    /// The clause on checkpoints. `stream` exists until it is forgotten.
    pub(crate) unsafe fn restore(&self, stream: CuStream) -> Result<RestoredBlocks, Failure> {
        let present = known_blocks(&self.client, &self.pool)?;
        let pool = pool_in(&self.pool)?;
        let _current = self.client.device.enter()?;
        let recorded = recorded_streams(&present);
        let restore = |stream: StreamRef<'_>| -> Result<_, Failure> {
            settle::order_behind(stream, &recorded)?;
            // SAFETY: the caller's contract; what uses the blocks that end comes before in the
            // order of the stream.
            Ok(unsafe { pool.restore(&self.live, stream) }?)
        };
        // SAFETY: the caller's contract.
        let restored = unsafe { streams::with_kept(stream, restore) }??;
        for block in &present {
            if let Some(block) = table::take(block.address) {
                block.count_return();
            }
        }
        for &KnownBlock { address, size, stream, stream_id } in &self.known {
            self.client.counts.allocate(size);
            let block = Block {
                client: Arc::clone(&self.client),
                source: Source::Pool(Arc::clone(&self.pool)),
                size,
                stream,
                stream_id,
                recorded: Vec::new(),
                is_pending: false,
            };
            let replaced = table::enter(address, block);
            debug_assert!(replaced.is_none(), "all blocks of the pool were taken out");
        }
        let freed = restored.freed.iter().map(|pointer| (pointer.0, 0)).collect();
        let live = self.known.iter().map(|block| (block.address as u64, block.size.requested));
        Ok(RestoredBlocks { freed, live: live.collect() })
    }
}

/// The addresses of blocks, and the bytes of those that are live.
#[derive(Debug)]
pub(crate) struct RestoredBlocks {
    freed: Vec<(u64, usize)>,
    live: Vec<(u64, usize)>,
}

impl RestoredBlocks {
    /// Calls a function of C with each.
    ///
    /// # Safety
    /// The clause on callbacks.
    pub(crate) unsafe fn visit(
        &self,
        visit: unsafe extern "C-unwind" fn(*mut c_void, usize, u8, *mut c_void),
        context: *mut c_void,
    ) {
        for (is_live, blocks) in [(0, &self.freed), (1, &self.live)] {
            for &(address, bytes) in blocks {
                let address = usize::try_from(address).unwrap_or(usize::MAX);
                let pointer = ptr::with_exposed_provenance_mut(address);
                // SAFETY: the caller's contract.
                let call = || unsafe { visit(pointer, bytes, is_live, context) };
                let ((), _) = guard::call_back(call);
            }
        }
    }
}
