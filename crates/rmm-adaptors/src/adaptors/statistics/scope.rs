//! A scope that counts a part of a program.

use rmm_core::fork;

use super::counters::{AllocationCounters, Counting};

/// Counts the allocations of a part of a program, from
/// [`scope`](super::StatisticsResourceAdaptor::scope) until it is dropped or [ended](Self::end).
/// The counters around it include them. Scopes may end in any order: an inner one ends with its
/// outer one.
///
/// ```
/// use rmm_adaptors::StatisticsResourceAdaptor;
/// use rmm_resources::CudaMemoryResource;
///
/// let counted = StatisticsResourceAdaptor::new(CudaMemoryResource::new());
/// let (outer, inner) = (counted.scope(), counted.scope());
/// outer.end();
/// inner.end(); // is over already
/// assert!(counted.pop_counters().is_err(), "nothing is left aside");
/// ```
#[derive(Debug)]
#[must_use = "a scope ends where it is dropped"]
pub struct StatisticsScope<'a> {
    counting: &'a Counting,
    /// The number of its push.
    push: u64,
}

impl<'a> StatisticsScope<'a> {
    pub(super) fn open(counting: &'a Counting) -> Self {
        Self { counting, push: counting.open() }
    }

    /// The counters so far, including inner scopes; zeros if it has ended.
    pub fn counters(&self) -> AllocationCounters {
        self.counting.since(self.push).unwrap_or_default()
    }

    /// Ends the scope and returns its counters; zeros if it has ended already.
    pub fn end(self) -> AllocationCounters {
        self.counting.close(self.push).unwrap_or_default()
    }
}

impl Drop for StatisticsScope<'_> {
    fn drop(&mut self) {
        if !fork::is_child() {
            self.counting.close(self.push);
        }
    }
}
