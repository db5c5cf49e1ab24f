//! A stack of allocation counters.

#![forbid(unsafe_code)]

use std::fmt;

use rmm_core::Error;

use crate::sync::biased_mutex::BiasedMutex;

/// A current value, its peak and a running total. Signed: what was allocated before a push may be
/// freed after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[doc(alias = "rmm::mr::statistics_resource_adaptor::counter")]
pub struct Counter {
    /// The current value.
    pub value: i64,
    /// The maximum of `value`; never below 0.
    pub peak: i64,
    /// The sum of all additions.
    pub total: i64,
}

/// Counters of requested bytes and of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocationCounters {
    /// Bytes.
    pub bytes: Counter,
    /// Blocks.
    pub allocations: Counter,
}

impl Counter {
    #[inline]
    fn add(&mut self, amount: i64) {
        self.value = self.value.saturating_add(amount);
        self.total = self.total.saturating_add(amount);
        self.peak = self.peak.max(self.value);
    }

    #[inline]
    fn subtract(&mut self, amount: i64) {
        self.value = self.value.saturating_sub(amount);
    }

    /// Adds the counts of a part that started at zero.
    fn absorb(&mut self, part: Self) {
        self.peak = self.peak.max(self.value.saturating_add(part.peak));
        self.value = self.value.saturating_add(part.value);
        self.total = self.total.saturating_add(part.total);
    }
}

impl AllocationCounters {
    fn absorb(&mut self, part: Self) {
        self.bytes.absorb(part.bytes);
        self.allocations.absorb(part.allocations);
    }
}

/// The current counters, and those below them on the stack.
#[derive(Debug, Default)]
struct Stack {
    top: AllocationCounters,
    aside: Vec<Aside>,
    /// The number of pushes so far.
    pushes: u64,
}

#[derive(Debug)]
struct Aside {
    /// The number of the push, counted from 1.
    push: u64,
    counters: AllocationCounters,
}

impl Stack {
    fn push(&mut self) -> u64 {
        self.pushes += 1;
        let counters = std::mem::take(&mut self.top);
        self.aside.push(Aside { push: self.pushes, counters });
        self.pushes
    }

    /// The counters since the push at this index.
    fn since(&self, place: usize) -> AllocationCounters {
        // The counters above it, from the oldest to the current ones, added up.
        let mut parts = self.aside.iter().skip(place + 1).map(|aside| aside.counters);
        let Some(mut sum) = parts.next() else { return self.top };
        parts.chain([self.top]).for_each(|part| sum.absorb(part));
        sum
    }

    /// Pops everything from the push at this index on, and adds it to the counters there.
    fn resume(&mut self, place: usize) -> AllocationCounters {
        let since = self.since(place);
        if let Some(aside) = self.aside.drain(place..).next() {
            self.top = aside.counters;
            self.top.absorb(since);
        }
        since
    }
}

#[derive(Default)]
pub(super) struct Counting(BiasedMutex<Stack>);

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.top().fmt(f)
    }
}

#[inline]
fn amount(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Counting {
    pub(super) fn top(&self) -> AllocationCounters {
        self.0.with(|stack| stack.top)
    }

    #[inline]
    pub(super) fn add(&self, bytes: usize) {
        self.0.with(|stack| {
            stack.top.bytes.add(amount(bytes));
            stack.top.allocations.add(1);
        });
    }

    #[inline]
    pub(super) fn subtract(&self, bytes: usize) {
        self.0.with(|stack| {
            stack.top.bytes.subtract(amount(bytes));
            stack.top.allocations.subtract(1);
        });
    }

    /// Pushes new counters and returns the current ones.
    pub(super) fn push(&self) -> AllocationCounters {
        self.0.with(|stack| {
            let top = stack.top;
            stack.push();
            top
        })
    }

    /// Pushes new counters and returns the number of the push.
    pub(super) fn open(&self) -> u64 {
        self.0.with(Stack::push)
    }

    pub(super) fn pop(&self) -> Result<AllocationCounters, Error> {
        let popped = self.0.with(|stack| {
            let last = stack.aside.len().checked_sub(1)?;
            Some(stack.resume(last))
        });
        popped.ok_or_else(|| Error::out_of_range("statistics", "no counters were pushed"))
    }

    /// The counters since the push with this number; `None` if it has been popped.
    pub(super) fn since(&self, push: u64) -> Option<AllocationCounters> {
        self.0.with(|stack| {
            let place = stack.aside.iter().position(|aside| aside.push == push)?;
            Some(stack.since(place))
        })
    }

    /// Pops everything from the push with this number on, unless that has been popped.
    pub(super) fn close(&self, push: u64) -> Option<AllocationCounters> {
        self.0.with(|stack| {
            let place = stack.aside.iter().position(|aside| aside.push == push)?;
            Some(stack.resume(place))
        })
    }
}
