//! Counters of a part of a program.

use super::counters::{AllocationCounters, Counting};

/// Counts what a part of a program allocates, from
/// [`scope`](super::StatisticsResourceAdaptor::scope) on until it is dropped or [ended](Self::end);
/// what the counters around it count goes on. Scopes end in any order: one that was opened inside
/// ends with the outer one.
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

    /// The counters so far, those of scopes inside it included; zeros if it is over.
    pub fn counters(&self) -> AllocationCounters {
        self.counting.since(self.push).unwrap_or_default()
    }

    /// Ends the scope and returns its counters; zeros if it is over.
    pub fn end(self) -> AllocationCounters {
        self.counting.close(self.push).unwrap_or_default()
    }
}

impl Drop for StatisticsScope<'_> {
    fn drop(&mut self) {
        self.counting.close(self.push);
    }
}
