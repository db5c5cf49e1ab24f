//! Trims every suballocator of a stack, from the top: what one returns is free in the next.

use super::concept::{Structure, SynchronousResource};
use super::trim::TrimmableResource;

/// Whether a trim waits for pending frees first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TrimEffort {
    /// Returns what is known to be unused.
    Idle,
    /// Waits on this thread for pending frees.
    Wait,
}

impl TrimEffort {
    fn trim(self, resource: &dyn TrimmableResource, keep: u64) -> u64 {
        match self {
            Self::Idle => resource.trim_to(keep),
            Self::Wait => resource.trim_to_blocking(keep),
        }
    }
}

/// Trims the suballocators of the stack that starts here. Returns the bytes that left the stack:
/// those that the lowest suballocators returned; `None` if there is no suballocator.
pub(crate) fn trim_stack(
    resource: &(dyn SynchronousResource + 'static),
    keep: u64,
    effort: TrimEffort,
) -> Option<u64> {
    let structure = Structure::of(resource);
    let own = structure.trimmable().map(|trimmable| effort.trim(trimmable, keep));
    let mut below = None;
    for upstream in structure.upstreams() {
        if let Some(bytes) = trim_stack(upstream, keep, effort) {
            *below.get_or_insert(0) += bytes;
        }
    }
    below.or(own)
}
