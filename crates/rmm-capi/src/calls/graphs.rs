//! The memory of CUDA graphs.

use crate::handle::find::pool_in;
use crate::handle::guard;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::Status;

/// Makes memory of the pool, or of the first one below the resource, available to any stream that
/// was freed on streams under capture; with `RMM_RS_POOL_GRAPHS`, all of it, once the work before
/// is complete. Every launch of a graph that was captured with the pool's memory has completed, and
/// none of them is launched again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_pool_release_graph_memory(
    resource: *const ResourceHandle,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let pool = pool_in(unsafe { borrow(resource) }?)?;
        // SAFETY: the clause on graphs.
        unsafe { pool.release_graph_memory() };
        Ok(())
    })
}
