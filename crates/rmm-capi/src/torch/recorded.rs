//! Streams other than its own that use a block.

use std::ffi::c_void;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use rmm_core::sys::CuStream;

static RECORDED: LazyLock<DashMap<usize, Vec<CuStream>>> = LazyLock::new(DashMap::new);

/// The entries of [`RECORDED`], so that a free of a program that records nothing looks at one word.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes that the stream uses the block.
pub(super) fn note(pointer: *mut c_void, stream: CuStream) {
    let mut entry = RECORDED.entry(pointer.addr()).or_insert_with(|| {
        let _before = COUNT.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    });
    if !entry.contains(&stream) {
        entry.push(stream);
    }
}

/// The streams that used a block which is freed; `None` if none did.
pub(super) fn take(pointer: *mut c_void) -> Option<Vec<CuStream>> {
    // Who frees a block comes after those who recorded its streams, and so sees their counts.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let (_, streams) = RECORDED.remove(&pointer.addr())?;
    let _before = COUNT.fetch_sub(1, Ordering::Relaxed);
    Some(streams)
}
