//! Where replays are made: a device with a given amount of memory, whose work is done sooner or
//! later.

use rmm_core::Error;
use rmm_spec::ResourceSpec;

use crate::replay::Attempt;
use crate::trace::Trace;

/// When the work of a program is done. Memory that another stream has freed can be used once its
/// work is done, so how much memory a program of several streams needs depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// As soon as it is enqueued: a device that is infinitely fast.
    AtOnce,
    /// Only when something waits for it: a device that is infinitely slow.
    WhenWaitedFor,
    /// Between the two, in an order that follows from this number.
    Mixed(u64),
    /// When a GPU has done it.
    OfGpu,
}

/// Makes replays.
pub trait Laboratory: Sync {
    /// Replays the trace once on a device with so much memory, or as much of it as the resource
    /// may take, up to the first failure. Called from several threads at once.
    ///
    /// # Errors
    /// If there is no such device. That the memory is not enough is no error.
    fn attempt(
        &self,
        trace: &Trace,
        resource: &ResourceSpec,
        memory: u64,
        pace: Pace,
    ) -> Result<Attempt, Error>;

    /// The paces at which a program has to run, one at least. Driver calls are counted at the
    /// first, waits at the last.
    fn paces(&self) -> &[Pace];

    /// Further paces, at which the answer is proven.
    fn proofs(&self) -> &[Pace];

    /// How many attempts may be made at a time.
    fn threads(&self) -> usize;
}
