//! A global allocator that counts, per thread, the bytes of large blocks that resources allocate
//! and free.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Blocks of at least this size count; the tests' own blocks are smaller.
pub(crate) const LARGE: usize = 3 << 20;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

/// Bytes of large blocks that this thread has allocated and not freed.
pub(crate) fn live() -> usize {
    LIVE.with(Cell::get)
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call goes to the system's allocator with the same layout.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        let block = unsafe { System.alloc(layout) };
        if layout.size() >= LARGE && !block.is_null() {
            LIVE.with(|live| live.set(live.get() + layout.size()));
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() >= LARGE {
            LIVE.with(|live| live.set(live.get().wrapping_sub(layout.size())));
        }
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }
}
