//! Allocation counters: current, peak and total.

mod counters;
mod scope;

use rmm_core::{Description, DevicePtr, Error};

use super::layer::handle;
use super::observer::{AllocatedAs, Call, Observer};

use counters::Counting;
pub use counters::{AllocationCounters, Counter};
pub use scope::StatisticsScope;

handle! {
    /// Counts blocks and bytes: current, peak and total.
    ///
    /// To count a part of a program separately, push new counters and pop them later, which adds
    /// them to the ones below: with [`push_counters`](Self::push_counters) and
    /// [`pop_counters`](Self::pop_counters), or with a [`scope`](Self::scope). Bytes are those
    /// requested.
    ///
    /// It is a handle: clones share the counters. Each call takes a lock to count, which is cheap
    /// while only one thread uses the adaptor; upstream is not called while the lock is held.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::StatisticsResourceAdaptor;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let counted = StatisticsResourceAdaptor::new(CudaMemoryResource::new());
    /// let layout = Layout::from_size_align(1000, 256)?;
    /// let outside = counted.allocate_sync(layout)?;
    ///
    /// let scope = counted.scope();
    /// let inside = counted.allocate_sync(layout)?;
    /// # // SAFETY: allocated above with this layout, and not used.
    /// unsafe { counted.deallocate_sync(inside, layout) };
    /// let of_scope = scope.end();
    /// assert_eq!((of_scope.bytes.value, of_scope.bytes.peak, of_scope.bytes.total), (0, 1000, 1000));
    ///
    /// let all = counted.counters();
    /// assert_eq!((all.bytes.value, all.bytes.peak, all.bytes.total), (1000, 2000, 2000));
    /// assert_eq!(all.allocations.total, 2);
    /// # // SAFETY: as above.
    /// # unsafe { counted.deallocate_sync(outside, layout) };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::statistics_resource_adaptor")]
    StatisticsResourceAdaptor(Counting)
}

impl<U> StatisticsResourceAdaptor<U> {
    /// Counts from zero.
    pub fn new(upstream: U) -> Self {
        Self::over(upstream, Counting::default())
    }

    /// The counters since the last push, or since the adaptor was created.
    pub fn counters(&self) -> AllocationCounters {
        self.inner.layer.top()
    }

    /// The bytes of [`counters`](Self::counters).
    #[doc(alias = "get_bytes_counter")]
    pub fn bytes_counter(&self) -> Counter {
        self.counters().bytes
    }

    /// The blocks of [`counters`](Self::counters).
    #[doc(alias = "get_allocations_counter")]
    pub fn allocations_counter(&self) -> Counter {
        self.counters().allocations
    }

    /// Pushes new counters, which start at zero, and returns the current ones.
    pub fn push_counters(&self) -> AllocationCounters {
        self.inner.layer.push()
    }

    /// Pops the current counters, adds them to those below, as if these had counted all the time,
    /// and returns the popped ones.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if none were pushed. The counters
    /// are unchanged.
    pub fn pop_counters(&self) -> Result<AllocationCounters, Error> {
        self.inner.layer.pop()
    }

    /// [Pushes](Self::push_counters) new counters and pops them when the scope ends. Calls of all
    /// threads that use the resource count in it.
    pub fn scope(&self) -> StatisticsScope<'_> {
        StatisticsScope::open(&self.inner.layer)
    }
}

impl Observer for Counting {
    const NAME: &'static str = "statistics";

    #[inline]
    fn allocated(&self, _: DevicePtr, call: Call<'_>) -> Result<(), Error> {
        self.add(call.layout.size());
        Ok(())
    }

    #[inline]
    fn freeing(&self, _: DevicePtr, call: Call<'_>) -> Option<AllocatedAs> {
        self.subtract(call.layout.size());
        None
    }

    fn describe(&self, description: &mut Description) {
        let AllocationCounters { bytes, allocations } = self.top();
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        description
            .bytes("live", count(bytes.value))
            .bytes("peak", count(bytes.peak))
            .bytes("total", count(bytes.total))
            .count("live blocks", count(allocations.value));
    }
}
