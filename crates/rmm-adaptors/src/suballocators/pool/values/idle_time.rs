//! Release by time: memory that was not in use at any moment of a span of time is released.
//!
//! ```text
//!  bytes in use      _____
//!              _____|     |___           ____ peak of the span: what the pool keeps
//!        _____|               |_________|
//!       |--------- span ------|--------- span ------|      the clock is read now and then
//!                            look                  look    in frees that reach the heap
//! ```

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that a program sets, for tests of
/// [`release_after`](crate::PoolMemoryResourceBuilder::release_after). Clones are the same clock.
///
/// ```
/// use std::alloc::Layout;
/// use std::time::Duration;
/// use rmm_adaptors::{ManualClock, PoolMemoryResource};
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let clock = ManualClock::new();
/// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
/// let pool = builder.release_after(Duration::from_secs(5)).clock(clock.clone()).build()?;
/// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(8 << 20, 256)?);
/// let block = pool.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { pool.deallocate(&stream, block, layout) };
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(pool.release_unused(), 0); // it was in use in these five seconds
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(pool.release_unused(), 8 << 20);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanoseconds: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the clock. It stops at 584 years.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rmm_adaptors::ManualClock;
    ///
    /// let clock = ManualClock::new();
    /// clock.advance(Duration::from_secs(2));
    /// assert_eq!(clock.now(), Duration::from_secs(2));
    /// ```
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let later = |now: u64| Some(now.saturating_add(by));
        let _ignored = self.nanoseconds.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// The time since 0.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

/// What a pool reads the time from. No code of the program: it is read with the pool's lock held.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The system's monotonic clock, from this moment on.
    System(Instant),
    /// The program's.
    Manual(ManualClock),
}

impl Clock {
    fn now(&self) -> Duration {
        match self {
            Self::System(start) => start.elapsed(),
            Self::Manual(clock) => clock.now(),
        }
    }
}

/// The frees that reach the heap between two looks at the clock, which costs about 25 ns.
const FREES_BETWEEN_LOOKS: u32 = 64;
/// The freed bytes that are worth a look at the clock.
const BYTES_BETWEEN_LOOKS: u64 = 2 << 20;

/// The current span of time, and what was in use in it.
#[derive(Debug)]
pub(crate) struct IdleTime {
    /// The length of a span.
    after: Duration,
    clock: Clock,
    /// When the span began.
    since: Duration,
    /// The most bytes that were handed out at once in it.
    peak: u64,
    /// Frees and freed bytes since the clock was read last.
    frees: u32,
    freed: u64,
}

impl IdleTime {
    pub(crate) fn new(after: Duration, clock: Clock) -> Self {
        let since = clock.now();
        Self { after, clock, since, peak: 0, frees: 0, freed: 0 }
    }

    /// Notes the bytes that are handed out now.
    #[inline]
    pub(crate) fn note_live(&mut self, live: u64) {
        self.peak = self.peak.max(live);
    }

    /// Counts a free of `bytes` bytes. Returns whether the span is over, as far as the clock was
    /// read.
    #[inline]
    pub(crate) fn note_free(&mut self, bytes: u64) -> bool {
        self.frees += 1;
        self.freed += bytes;
        if self.frees < FREES_BETWEEN_LOOKS && self.freed < BYTES_BETWEEN_LOOKS {
            return false;
        }
        (self.frees, self.freed) = (0, 0);
        self.is_over(self.clock.now())
    }

    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= self.after
    }

    /// If the span is over, begins another one, in which `live` bytes are handed out. Returns the
    /// most bytes that were in use at once in the one that is over.
    pub(crate) fn end_span(&mut self, live: u64) -> Option<u64> {
        let now = self.clock.now();
        if !self.is_over(now) {
            return None;
        }
        self.since = now;
        Some(std::mem::replace(&mut self.peak, live))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_once_in_many_small_frees() {
        let manual = ManualClock::new();
        let mut idle = IdleTime::new(Duration::from_secs(1), Clock::Manual(manual.clone()));
        manual.advance(Duration::from_secs(1));
        let looks = (0..2 * FREES_BETWEEN_LOOKS).filter(|_| idle.note_free(256)).count();
        assert_eq!(looks, 2);
        assert!(idle.note_free(BYTES_BETWEEN_LOOKS), "a large free is worth a look");
    }

    #[test]
    fn a_span_lasts_as_long_as_asked() {
        let manual = ManualClock::new();
        let mut idle = IdleTime::new(Duration::from_secs(2), Clock::Manual(manual.clone()));
        idle.note_live(700);
        idle.note_live(300);
        manual.advance(Duration::from_nanos(1_999_999_999));
        assert_eq!(idle.end_span(300), None);
        manual.advance(Duration::from_nanos(1));
        assert_eq!(idle.end_span(300), Some(700));
        manual.advance(Duration::from_secs(2));
        assert_eq!(idle.end_span(0), Some(300), "what was in use when the span began counts");
    }

    #[test]
    fn the_system_clock_advances() {
        let clock = Clock::System(Instant::now());
        let first = clock.now();
        assert!((0..1_000_000).any(|_| clock.now() > first));
    }
}
