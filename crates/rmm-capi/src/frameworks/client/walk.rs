//! What C learns of blocks: one by its address, or all of a client.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;
use std::sync::Arc;

use super::block::{Block, ClientHandle, Source};
use super::table;
use crate::handle::guard;
use crate::handle::resource::ResourceHandle;
use crate::handle::sized::Sized;

/// A block of a client.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ClientBlock {
    /// `sizeof(rmm_rs_client_block)`, set by the caller; that of the library in a walk.
    pub size: usize,
    /// Its address.
    pub pointer: *mut c_void,
    /// The bytes that were requested.
    pub requested: usize,
    /// The same, rounded up to a multiple of 512.
    pub bytes: usize,
    /// The device of its client.
    pub device: i32,
    /// The stream that it was allocated for; null for memory that was allocated on no stream.
    pub stream: *mut c_void,
    /// The resource that the request named, borrowed: valid until the block is freed. Null if it
    /// named none.
    pub pool: *const ResourceHandle,
    /// 1 if it was freed and waits for recorded streams.
    pub is_pending: u8,
    /// 1 if it is allocated and other streams than its own were recorded, so that its free may be
    /// pending.
    pub is_recorded: u8,
    /// Its client, borrowed: valid until the block is freed.
    pub client: *const ClientHandle,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers and pointers. No pointer crosses a
// multiple of the first field's size, by `repr(C)`.
unsafe impl Sized for ClientBlock {}

impl ClientBlock {
    /// What is known of a block.
    fn of(address: usize, block: &Block) -> Self {
        let pool = match &block.source {
            Source::Pool(pool) => Arc::as_ptr(pool),
            Source::Own | Source::Current(_) => ptr::null(),
        };
        Self {
            size: size_of::<Self>(),
            pointer: ptr::with_exposed_provenance_mut(address),
            requested: block.size.requested,
            bytes: block.size.bytes(),
            device: block.client.device.number(),
            stream: block.stream.as_raw(),
            pool,
            is_pending: u8::from(block.is_pending),
            is_recorded: u8::from(block.is_recorded()),
            client: Arc::as_ptr(&block.client),
        }
    }
}

/// What a walk calls with each block and its context. It may call this library. An exception of C++
/// that leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_client_visit_function =
    Option<unsafe extern "C-unwind" fn(block: *const ClientBlock, context: *mut c_void)>;

/// The block at an address.
pub(crate) fn find(address: usize) -> Option<ClientBlock> {
    table::with(address, |block| ClientBlock::of(address, block))
}

/// A copy of what is known of a client's blocks, by address. It keeps their resources.
#[derive(Debug)]
pub(crate) struct BlockList {
    blocks: Vec<(ClientBlock, Source)>,
}

impl BlockList {
    /// The blocks of a client, from one resource or from all.
    pub(crate) fn of(client: &ClientHandle, pool: Option<&ResourceHandle>) -> Self {
        let mut blocks = table::collect(|address, block| {
            ptr::eq(Arc::as_ptr(&block.client), client)
                .then(|| (ClientBlock::of(address, block), block.source.clone()))
        });
        // Not under the table's locks: resources are compared by functions of theirs.
        if let Some(pool) = pool {
            blocks.retain(|(_, source)| *source.any(client) == pool.any);
        }
        blocks.sort_unstable_by_key(|(block, _)| block.pointer.addr());
        Self { blocks }
    }

    /// Calls a function of C with each.
    ///
    /// # Safety
    /// The clause on callbacks.
    pub(crate) unsafe fn visit(
        &self,
        visit: unsafe extern "C-unwind" fn(*const ClientBlock, *mut c_void),
        context: *mut c_void,
    ) {
        for (block, _) in &self.blocks {
            // SAFETY: the caller's contract; the block is valid during the call.
            let ((), _) = guard::call_back(|| unsafe { visit(ptr::from_ref(block), context) });
        }
    }
}
