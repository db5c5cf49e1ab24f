//! A map of a pool's memory.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr;

use rmm_adaptors::PoolBlock;
use rmm_core::sys::CuStream;

use crate::calls::allocate::to_c;
use crate::handle::failure::Failure;
use crate::handle::find::pool_in;
use crate::handle::guard;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;

/// A block of a pool's memory, allocated or free. The blocks of a segment lie end to end.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolBlockInfo {
    /// `sizeof(rmm_rs_pool_block)` of the library.
    pub size: usize,
    /// The number of its segment.
    pub segment: usize,
    /// The address at which that segment starts.
    pub segment_base: *mut c_void,
    /// Bytes from there to the block.
    pub offset: u64,
    /// Bytes of the block.
    pub bytes: u64,
    /// The stream that it was freed on, if `has_stream` is 1. Its handle may be another stream's
    /// once it is destroyed.
    pub stream: *mut c_void,
    /// 0 for allocated blocks, blocks that any stream may have, and blocks of a stream that ended.
    pub has_stream: u8,
    /// 1 if it is allocated.
    pub is_live: u8,
}

impl From<PoolBlock> for PoolBlockInfo {
    fn from(block: PoolBlock) -> Self {
        Self {
            size: size_of::<Self>(),
            segment: block.segment,
            segment_base: to_c(block.segment_base),
            offset: block.offset,
            bytes: block.size,
            stream: block.owner_handle.map_or(ptr::null_mut(), CuStream::as_raw),
            has_stream: u8::from(block.owner_handle.is_some()),
            is_live: u8::from(block.is_live),
        }
    }
}

/// What a walk of a pool calls with each block and its context. It may call this library. An
/// exception of C++ that leaves it ends the process.
#[expect(non_camel_case_types, reason = "the name is one of C")]
pub type rmm_rs_pool_visit_function =
    Option<unsafe extern "C-unwind" fn(block: *const PoolBlockInfo, context: *mut c_void)>;

/// Calls `visit` with each block of the pool, or of the first one below the resource, by segment
/// and address. A copy is walked, so `visit` may call every function. The threads' caches are
/// emptied first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_walk(
    resource: *const ResourceHandle,
    visit: rmm_rs_pool_visit_function,
    context: *mut c_void,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = pool_in(unsafe { borrow(resource) }?)?;
        let visit = visit.ok_or_else(|| Failure::invalid("the function is null"))?;
        for block in pool.blocks() {
            let block = PoolBlockInfo::from(block);
            // SAFETY: by the clause on callbacks, it may be called with this context; the block is
            // valid during the call.
            let ((), _) = guard::call_back(|| unsafe { visit(&raw const block, context) });
        }
        Ok(())
    })
}
