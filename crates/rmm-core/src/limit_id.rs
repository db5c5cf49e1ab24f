//! The identity of what refuses requests by a limit of its own.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies something that refuses requests by a limit of its own: a limiting adaptor, or a pool.
/// Never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitId(u64);

impl LimitId {
    /// Another one.
    #[expect(clippy::new_without_default, reason = "each is different")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
