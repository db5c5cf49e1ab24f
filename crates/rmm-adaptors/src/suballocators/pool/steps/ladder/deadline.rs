//! The wait for the device of a request with a deadline.
//!
//! A thread that wakes up at its deadline must not wait for others then: of sixteen that do so at
//! once, each would have the lock several times, and each may lose its processor while it has it.
//! So such a request notes what it lacks before it sleeps for the last time, and looks once more
//! only if the lock is free then.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use rmm_core::Error;

use super::Ladder;
use crate::suballocators::pool::heap::NodeId;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::probe::Polling;
use crate::suballocators::pool::state::session::Request;
use crate::suballocators::pool::steps::refusal::{Refusal, Shortage};
use crate::suballocators::pool::values::units::ListId;

/// How long a request with a deadline waits between two questions about events.
const POLL_EVERY: Duration = Duration::from_micros(50);

/// How long before its deadline such a request stops waiting, so that it returns in time, but at
/// most half of its time. Of a thousand threads on an H200's host that slept for 1.5 ms the last to
/// wake up did so 0.3 to 0.9 ms late.
const TIME_TO_REFUSE: Duration = Duration::from_micros(400);

/// How much longer for each other request that waits: all may want to ask once more.
const TIME_FOR_EACH: Duration = Duration::from_micros(20);

/// How long before its deadline such a request asks nothing any more, and gives up the lock.
const TIME_TO_RETURN: Duration = Duration::from_micros(100);

/// A request with less time than this lets no others have the lock on its way.
const NEAR: Duration = Duration::from_millis(10);

thread_local! {
    static LAST_WAKE: Cell<Option<DeadlineWake>> = const { Cell::new(None) };
}

/// When a request with a deadline wanted to wake up, and when it did.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct DeadlineWake {
    pub wanted: Instant,
    pub woken: Instant,
    /// Whether it had the pool's lock again.
    pub has_lock: bool,
}

/// The last time that a request of this thread with a deadline woke up, once: for measurements.
#[doc(hidden)]
pub fn last_deadline_wake() -> Option<DeadlineWake> {
    LAST_WAKE.take()
}

impl Ladder<'_, '_> {
    /// Asks about all streams again and again, with the lock released between, until a block is
    /// free, nothing is pending any more, or the deadline has come.
    pub(super) fn poll_until(&mut self, deadline: Instant) -> Option<NodeId> {
        let Request { list, size, .. } = self.request;
        let patient = self.session.core.state.be_patient();
        self.session.statistics.host_waits += 1;
        let most = time_until(deadline, Duration::ZERO) / 2;
        // What the request lacked before the last nap.
        let mut lacked = None;
        loop {
            // Those that wait share one rate of questions.
            let others = self.session.core.state.patient().saturating_sub(1);
            let early = most.min(TIME_TO_REFUSE + TIME_FOR_EACH * others);
            let left = time_until(deadline, early);
            let polling = if left.is_zero() { Polling::Bounded } else { Polling::Full };
            let (node, _) = self.session.poll_for(list, size, polling);
            if let Some(node) = node.or_else(|| self.session.take_coalesced(list, size)) {
                return Some(node);
            }
            if left.is_zero() {
                break;
            }
            let PoolState { heap, timeline, .. } = &**self.session;
            let is_over = |list: ListId| timeline.newest(list) <= timeline.done(list);
            if heap.occupied().all(is_over) {
                return None;
            }
            let time = POLL_EVERY * (others + 1);
            if lacked.is_none() || time >= left {
                lacked = Some(self.shortage());
            }
            match self.nap(time.min(left), deadline, early) {
                Nap::Woken => {}
                Nap::Late => break,
                Nap::Failed(error) => {
                    self.refusal = Some(Refusal::Error(error));
                    return None;
                }
            }
        }
        drop(patient);
        self.session.is_out_of_time = true;
        let lacked = lacked.unwrap_or_else(|| self.shortage());
        self.refusal = Some(Refusal::OutOfTime(lacked));
        None
    }

    fn shortage(&mut self) -> Shortage {
        Shortage::of(self.session, self.request, self.upstream_error.as_ref(), false)
    }

    /// Sleeps for `time` without the lock, and longer while others have it, until it is `early`
    /// before the deadline.
    fn nap(&mut self, time: Duration, deadline: Instant, early: Duration) -> Nap {
        let Request { list, stream, .. } = self.request;
        self.session.step_out();
        let mut time = time;
        loop {
            let wanted = Instant::now() + time;
            #[expect(clippy::disallowed_methods, reason = "a deadline is a time")]
            thread::sleep(time);
            let woken = Instant::now();
            let has_lock =
                !time_until(deadline, TIME_TO_RETURN).is_zero() && self.session.step_in();
            LAST_WAKE.set(Some(DeadlineWake { wanted, woken, has_lock }));
            if has_lock {
                break;
            }
            time = time_until(deadline, early).min(POLL_EVERY);
            if time.is_zero() {
                return Nap::Late;
            }
        }
        if let Err(error) = self.session.phase.check_awake(self.session.core.name) {
            return Nap::Failed(error);
        }
        // The list was not kept for the stream meanwhile.
        if stream.is_some_and(|it| self.session.timeline.find(it.id()) != Some(list)) {
            return Nap::Late;
        }
        self.session.pin(list);
        Nap::Woken
    }
}

/// Whether a request with this deadline has little time.
pub(super) fn is_near(deadline: Instant) -> bool {
    time_until(deadline, NEAR).is_zero()
}

/// How long it is until `early` before the deadline.
fn time_until(deadline: Instant, early: Duration) -> Duration {
    deadline.saturating_duration_since(Instant::now()).saturating_sub(early)
}

/// How a nap has ended.
enum Nap {
    /// With the lock, and the request may go on.
    Woken,
    /// Too late to go on.
    Late,
    /// The pool is asleep.
    Failed(Error),
}
