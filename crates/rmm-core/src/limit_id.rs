//! The identity of what refuses requests by a limit of its own.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies something that refuses requests by a limit of its own: a limiting adaptor, or a pool.
/// Never reused.
///
/// [`Error::limit_id`](crate::Error::limit_id) and
/// [`RemedyAction::RaiseLimit`](crate::RemedyAction::RaiseLimit) have that of the resource whose
/// limit has refused a request; the resource's own `limit_id` method returns the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LimitId(u64);

impl LimitId {
    /// That of a refusal which no other suballocator could keep from happening: none draws on it.
    #[doc(hidden)]
    pub const UNSHARED: Self = Self(0);

    /// Another one.
    #[doc(hidden)]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// A number for it, unique in the process.
    pub const fn get(self) -> u64 {
        self.0
    }
}
