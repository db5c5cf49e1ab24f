//! The table of all clients' blocks, by address. No resource and no driver is called under its
//! locks.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, LazyLock};

use dashmap::DashMap;
use rmm_core::{AnyResource, StreamId};

use super::block::{Block, ClientHandle};
use super::pending::RecordedStream;
use crate::handle::failure::Failure;

/// In shards, each with a lock of its own.
static BLOCKS: LazyLock<DashMap<usize, Block, BuildHasherDefault<AddressHasher>>> =
    LazyLock::new(DashMap::default);

/// One multiplication by 2^64 divided by the golden ratio (Fibonacci hashing): addresses need no
/// defence against an adversary.
#[derive(Clone, Copy, Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    #[inline]
    fn finish(&self) -> u64 {
        // The map takes bits from both ends; the highest are the best.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.0 = (self.0 ^ value as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Enters a block. Returns one that was in its place: its memory was freed without this table.
#[inline]
pub(crate) fn enter(address: usize, block: Block) -> Option<Block> {
    BLOCKS.insert(address, block)
}

/// What a free finds.
#[derive(Debug)]
pub(crate) enum FreedBlock {
    /// A block that no other stream uses. It left the table.
    Ready(Block),
    /// A block that other streams use. It stays in the table, as pending.
    Waits(WaitingFree),
}

/// What a free needs of a block that stays in the table.
#[derive(Debug)]
pub(crate) struct WaitingFree {
    pub(crate) client: Arc<ClientHandle>,
    pub(crate) recorded: Vec<RecordedStream>,
}

/// Takes a block out, or makes it pending if streams were recorded other than the one that `check`
/// returns, which is called with the block first.
///
/// # Errors
/// If no such block is allocated, and that of `check`; then the block stays as it is.
#[inline]
pub(crate) fn free(
    address: usize,
    check: impl FnOnce(&mut Block) -> Result<Option<StreamId>, Failure>,
) -> Result<FreedBlock, Failure> {
    let mut waits = Err(None);
    let taken = BLOCKS.remove_if_mut(&address, |_, block| {
        if block.is_pending {
            return false;
        }
        let own = match check(block) {
            Ok(own) => own,
            Err(failure) => {
                waits = Err(Some(failure));
                return false;
            }
        };
        if block.recorded.is_empty() {
            return true;
        }
        // What the free's own stream does comes before the free anyway.
        block.recorded.retain(|stream| Some(stream.id) != own);
        if block.recorded.is_empty() {
            return true;
        }
        block.is_pending = true;
        let recorded = std::mem::take(&mut block.recorded);
        block.client.counts.free_later(block.size);
        block.client.pending.add();
        waits = Ok(WaitingFree { client: Arc::clone(&block.client), recorded });
        false
    });
    match (taken, waits) {
        (Some((_, block)), _) => Ok(FreedBlock::Ready(block)),
        (None, Ok(waits)) => Ok(FreedBlock::Waits(waits)),
        (None, Err(Some(failure))) => Err(failure),
        (None, Err(None)) => Err(unknown(address)),
    }
}

fn unknown(address: usize) -> Failure {
    Failure::invalid(format!("no memory at {address:#x} was allocated here"))
}

/// Takes an allocated block out, whatever streams were recorded for it.
///
/// # Errors
/// If no such block is allocated.
pub(crate) fn take_allocated(address: usize) -> Result<Block, Failure> {
    let taken = BLOCKS.remove_if(&address, |_, block| !block.is_pending);
    taken.map(|(_, block)| block).ok_or_else(|| unknown(address))
}

/// Takes a pending block out.
pub(crate) fn take_pending(address: usize) -> Option<Block> {
    BLOCKS.remove_if(&address, |_, block| block.is_pending).map(|(_, block)| block)
}

/// Takes a block out, pending or not.
pub(crate) fn take(address: usize) -> Option<Block> {
    BLOCKS.remove(&address).map(|(_, block)| block)
}

/// Calls `read` with a block that is not pending.
pub(crate) fn with_allocated<R>(address: usize, read: impl FnOnce(&mut Block) -> R) -> Option<R> {
    let mut block = BLOCKS.get_mut(&address)?;
    (!block.is_pending).then(|| read(&mut block))
}

/// Calls `read` with a block.
pub(crate) fn with<R>(address: usize, read: impl FnOnce(&Block) -> R) -> Option<R> {
    BLOCKS.get(&address).map(|block| read(&block))
}

/// Collects what `read` returns of each block.
pub(crate) fn collect<R>(mut read: impl FnMut(usize, &Block) -> Option<R>) -> Vec<R> {
    BLOCKS.iter().filter_map(|entry| read(*entry.key(), entry.value())).collect()
}

/// The resource of each block.
pub(crate) fn resources() -> Vec<AnyResource<()>> {
    collect(|_, block| Some(block.source.any(&block.client).clone()))
}
