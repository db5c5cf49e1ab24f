//! How far a request for memory may go before it is refused.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::time::Instant;

thread_local! {
    /// That of the innermost scope.
    static CURRENT: Cell<Effort> = const { Cell::new(Effort::Full) };
    /// The scopes of the thread, with numbers that rise, the innermost last.
    static SCOPES: RefCell<Vec<(u64, Effort)>> = const { RefCell::new(Vec::new()) };
}

/// How far requests for memory may go on a thread, within the scope of [`effort`].
///
/// A pool that has no free block for a request takes [a number of
/// steps](https://docs.rs/rmm-adaptors), each of which costs more than the one before. A program
/// that has another place for its data, or that can wait with it, may rather be refused. Requests
/// that a free or cached block serves are served by every effort, and cost the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Effort {
    /// All steps.
    #[default]
    Full,
    /// Without those that may make the calling thread wait for the device, for other threads'
    /// requests or for callbacks of the program. The pool grows, and makes streams wait for each
    /// other; it gives nothing back meanwhile, so it may hold more than otherwise. The driver may
    /// wait within a call that makes memory.
    NoHostWait,
    /// Without those that ask for more memory than the pool holds. Free memory is merged, and the
    /// host waits for the device and for other threads' requests.
    NoGrowth,
    /// All steps that begin before this instant. A wait for the device ends some tenths of a
    /// millisecond before it, but not in the first half of the time, one for other threads'
    /// requests with it, and other suballocators are asked only if no other thread asks them. A
    /// step that has begun is not interrupted: a call of the driver that makes memory takes from
    /// 0.05 to some milliseconds.
    Until(Instant),
}

impl Effort {
    /// That of the calling thread.
    pub fn current() -> Self {
        // Without thread-locals the thread is at its end.
        CURRENT.try_with(Cell::get).unwrap_or_default()
    }

    /// Whether the calling thread may wait for the device now.
    pub fn may_wait(self) -> bool {
        match self {
            Self::Full | Self::NoGrowth => true,
            Self::NoHostWait => false,
            Self::Until(instant) => Instant::now() < instant,
        }
    }

    /// Whether upstream may be asked for memory now.
    pub fn may_grow(self) -> bool {
        match self {
            Self::Full | Self::NoHostWait => true,
            Self::NoGrowth => false,
            Self::Until(instant) => Instant::now() < instant,
        }
    }

    /// When a wait has to end.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::Until(instant) => Some(instant),
            _ => None,
        }
    }
}

/// Limits the requests of the calling thread, of every resource, until the result is dropped. Of
/// several scopes the innermost counts.
///
/// ```
/// use std::time::{Duration, Instant};
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::{CudaStream, Effort, Resource, effort};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
/// let (stream, layout) = (CudaStream::new()?, std::alloc::Layout::new::<[u8; 1 << 20]>());
/// {
///     let _scope = effort(Effort::NoGrowth);
///     let error = pool.allocate(&stream, layout).unwrap_err(); // it holds nothing
///     assert!(error.is_out_of_memory());
/// }
/// let _scope = effort(Effort::Until(Instant::now() + Duration::from_secs(1)));
/// let block = pool.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { pool.deallocate(&stream, block, layout) };
/// # Ok(())
/// # }
/// ```
pub fn effort(effort: Effort) -> EffortScope {
    // Without thread-locals the thread is at its end, and no request follows.
    let number = SCOPES.try_with(|scopes| {
        let mut scopes = scopes.borrow_mut();
        let number = scopes.last().map_or(0, |&(last, _)| last + 1);
        scopes.push((number, effort));
        CURRENT.set(effort);
        number
    });
    EffortScope { number: number.ok(), thread_bound: PhantomData }
}

/// The scope of [`effort`]. Scopes may end in any order.
#[must_use = "the effort is limited only while the scope lives"]
#[derive(Debug)]
pub struct EffortScope {
    /// Its number in [`SCOPES`].
    number: Option<u64>,
    /// The effort belongs to the thread.
    thread_bound: PhantomData<*const ()>,
}

impl Drop for EffortScope {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        // As above.
        let _ignored = SCOPES.try_with(|scopes| {
            let mut scopes = scopes.borrow_mut();
            scopes.retain(|&(other, _)| other != number);
            CURRENT.set(scopes.last().map_or(Effort::Full, |&(_, effort)| effort));
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_innermost_scope_counts_and_ends_by_itself() {
        assert_eq!(Effort::current(), Effort::Full);
        let outer = effort(Effort::NoGrowth);
        {
            let _inner = effort(Effort::NoHostWait);
            assert_eq!(Effort::current(), Effort::NoHostWait);
            let elsewhere = std::thread::spawn(Effort::current).join().expect("no panic");
            assert_eq!(elsewhere, Effort::Full, "another thread");
        }
        assert_eq!(Effort::current(), Effort::NoGrowth);
        drop(outer);
        assert_eq!(Effort::current(), Effort::Full);
    }

    #[test]
    fn scopes_may_end_in_any_order() {
        let [first, second, third] =
            [Effort::NoGrowth, Effort::NoHostWait, Effort::Full].map(effort);
        drop(second);
        assert_eq!(Effort::current(), Effort::Full);
        drop(first);
        let fourth = effort(Effort::NoGrowth);
        drop(third);
        assert_eq!(Effort::current(), Effort::NoGrowth);
        drop(fourth);
        assert_eq!(Effort::current(), Effort::Full);
    }

    #[test]
    fn a_deadline_ends_what_waits_and_grows() {
        let now = Instant::now();
        let past = Effort::Until(now.checked_sub(Duration::from_secs(1)).unwrap_or(now));
        assert!(!past.may_wait() && !past.may_grow());
        let later = Effort::Until(now + Duration::from_secs(3600));
        assert!(later.may_wait() && later.may_grow());
        assert!(Effort::NoGrowth.may_wait() && !Effort::NoGrowth.may_grow());
        assert!(!Effort::NoHostWait.may_wait() && Effort::NoHostWait.may_grow());
    }
}
