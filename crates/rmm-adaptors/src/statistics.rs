//! Counters of what is allocated.

mod counters;
mod scope;

use std::alloc::Layout;

use rmm_core::{Description, DevicePtr, Error};

use crate::layer::{Below, Layer, adaptor};

use counters::Counting;
pub use counters::{AllocationCounters, Counter};
pub use scope::StatisticsScope;

adaptor! {
    /// Counts blocks and bytes: how many there are now, at the most, and in all.
    ///
    /// The counters can be put aside for those of a part of a program, and taken up again with that
    /// part's added to them: by [`push_counters`](Self::push_counters) and
    /// [`pop_counters`](Self::pop_counters), or by a [`scope`](Self::scope). Bytes are those asked
    /// for; requests of zero bytes count as blocks.
    ///
    /// It is a handle: clones share the counters. A call takes a lock for as long as it takes to
    /// count, which costs next to nothing as long as one thread alone calls; upstream is never
    /// called under it.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::StatisticsResourceAdaptor;
    /// use rmm_core::SyncResource;
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

    /// The counters since the last push, or since the beginning.
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

    /// Puts the counters aside, counts from zero, and returns those put aside.
    pub fn push_counters(&self) -> AllocationCounters {
        self.inner.layer.push()
    }

    /// Returns the counters since the last push, and goes on with those put aside then, as if they
    /// had been counting all the time.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if none were put aside. The
    /// counters stay as they are.
    pub fn pop_counters(&self) -> Result<AllocationCounters, Error> {
        self.inner.layer.pop()
    }

    /// [Pushes](Self::push_counters), and pops when the scope ends. All threads that use the
    /// resource count in it.
    pub fn scope(&self) -> StatisticsScope<'_> {
        StatisticsScope::open(&self.inner.layer)
    }
}

// SAFETY: every call goes to the upstream as it is.
unsafe impl Layer for Counting {
    const NAME: &'static str = "statistics";

    #[inline]
    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        let pointer = below.allocate(layout)?;
        self.add(layout.size());
        Ok(pointer)
    }

    #[inline]
    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        // Before the memory can be handed out again, so that it never counts twice.
        self.subtract(layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { below.deallocate(pointer, layout) }
    }

    fn tell(&self, description: &mut Description) {
        let AllocationCounters { bytes, allocations } = self.top();
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        description
            .bytes("live", count(bytes.value))
            .bytes("peak", count(bytes.peak))
            .bytes("total", count(bytes.total))
            .count("live blocks", count(allocations.value));
    }
}
