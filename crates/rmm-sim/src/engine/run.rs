//! The scheduler: runs queued work when a call needs it, when the schedule chooses it, or all of
//! it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::kernel_memory::MachineBytes;
use crate::engine::session::Session;
use crate::engine::state::State;
use crate::engine::thread;
use crate::model::context::Scope;
use crate::model::kernel::KernelMemory;
use crate::model::memory::Place;
use crate::model::operation::Operation;
use crate::model::schedule::{Choices, Schedule};
use crate::model::streams::Stream;
use crate::model::trace::TraceEntry;
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::violation::{Violation, ViolationKind};
use crate::model::work::{Item, Work};

/// What blocks the completion of a point.
enum Blocker {
    None,
    /// Another thread is running the stream's next item.
    Running,
    /// The next item waits for this point.
    Dependency(Point),
    /// The next item is ready, and has not run.
    Ready,
    /// The next item is missing: a panic of this device has lost it.
    Lost,
}

impl State {
    fn blocker_of(&self, point: Point) -> Blocker {
        let Some(stream) = self.streams.get(point.stream) else { return Blocker::None };
        if stream.completed >= point.position {
            return Blocker::None;
        }
        if stream.running {
            return Blocker::Running;
        }
        let Some(item) = stream.queue.front() else { return Blocker::Lost };
        let open = item.after.iter().find(|&&point| !self.streams.is_complete(point));
        open.map_or(Blocker::Ready, |&point| Blocker::Dependency(point))
    }

    /// Executes work that runs with the lock held.
    fn execute(&mut self, work: Work, device: usize) {
        match work {
            Work::Copy { from, to } => {
                if self.is_usable(&from, Operation::Read, device, "a copy")
                    && self.is_usable(&to, Operation::Write, device, "a copy")
                {
                    self.copy(&from, &to);
                }
            }
            Work::Staged { bytes, to } => {
                if self.is_usable(&to, Operation::Write, device, "a copy") {
                    self.store(&to, &bytes);
                }
            }
            Work::Fill { to, pattern, width } => {
                if self.is_usable(&to, Operation::Write, device, "a fill") {
                    self.fill(&to, &pattern[..width]);
                }
            }
            Work::Release { allocation } => self.allocations.release(allocation),
            Work::Record { .. } | Work::Marker(_) | Work::Host { .. } | Work::Kernel(_) => {}
        }
    }

    fn describe_work(&self, work: &Work) -> String {
        let place = |place: &Place| self.describe(place.address);
        match work {
            Work::Copy { from, to } => {
                format!("copy {} bytes from {} to {}", from.bytes, place(from), place(to))
            }
            Work::Staged { bytes, to } => {
                format!("copy {} staged bytes to {}", bytes.len(), place(to))
            }
            Work::Fill { to, pattern, width } => {
                format!("fill {} bytes at {} with {:x?}", to.bytes, place(to), &pattern[..*width])
            }
            Work::Host { .. } => String::from("host function"),
            Work::Kernel(body) => format!("kernel {}", body.name),
            Work::Record { event } => format!("event {event}"),
            Work::Release { allocation } => format!("release of allocation {allocation}"),
            Work::Marker(what) => String::from(*what),
        }
    }
}

impl Session<'_> {
    /// Runs the work that these points need to be complete, and no other.
    ///
    /// Terminates, because work only waits for work that was enqueued before it.
    pub(crate) fn finish(&mut self, points: impl IntoIterator<Item = Point>) {
        let mut wanted: Vec<Point> = points.into_iter().collect();
        wanted.reverse();
        while let Some(&point) = wanted.last() {
            match self.blocker_of(point) {
                Blocker::None => {
                    wanted.pop();
                }
                Blocker::Running => self.wait(),
                Blocker::Dependency(earlier) => wanted.push(earlier),
                Blocker::Ready => self.run_next(point.stream),
                Blocker::Lost => self.abandon_stream(point.stream),
            }
        }
    }

    /// Reports that work of a stream was lost, and counts its work as complete.
    fn abandon_stream(&mut self, id: u64) {
        self.checks.report_panic("work of a stream");
        self.streams.complete_all(id);
    }

    /// Whether a call that does not wait may run the next item of a stream. Host functions and
    /// kernels, which may block, are left to the threads that run work in the background, if there
    /// are any.
    fn may_run_in_call(&self, id: u64) -> bool {
        let is_callback = || {
            let next = self.streams.get(id).and_then(|stream| stream.queue.front());
            next.is_some_and(|item| item.work.is_callback())
        };
        self.background == 0 || !is_callback()
    }

    /// Runs one item that these points need, unless another thread is running it.
    pub(crate) fn advance(&mut self, points: &[Point]) {
        let Some(mut point) =
            points.iter().copied().find(|&point| !self.streams.is_complete(point))
        else {
            return;
        };
        loop {
            match self.blocker_of(point) {
                Blocker::None | Blocker::Running => return,
                Blocker::Lost => return self.abandon_stream(point.stream),
                Blocker::Dependency(earlier) => point = earlier,
                Blocker::Ready => {
                    if self.may_run_in_call(point.stream) {
                        self.run_next(point.stream);
                    }
                    return;
                }
            }
        }
    }

    /// Runs all work that is queued now.
    pub(crate) fn run_pending(&mut self, scope: Scope) {
        let points = self.streams.pending(scope);
        self.finish(points);
    }

    /// Runs the ready work that the schedule chooses before a call.
    pub(crate) fn run_chosen(&mut self) {
        if self.schedule == Schedule::Timed {
            return self.run_until_now();
        }
        match &mut self.choices {
            Choices::None => {}
            Choices::Drawn(random) => {
                for _ in 0..random.below(4) {
                    let Some(chosen) = self.choose_ready() else { return };
                    self.run_next(chosen);
                }
            }
            Choices::Scripted(_) => {
                while let Some(chosen) = self.choose_ready() {
                    self.run_next(chosen);
                }
            }
        }
    }

    /// Waits for all work that is queued now. In simulated time, a wait for a context takes as long
    /// as one for its device.
    pub(crate) fn drain(&mut self, scope: Scope) {
        let done = match scope {
            Scope::All => self.sim_time.end_of_all(),
            Scope::Device(device) => self.sim_time.end_of_device(device),
            Scope::Context(context) => self.sim_time.end_of_device(self.contexts[context].device),
        };
        self.run_pending(scope);
        self.sim_time.wait_until(done);
    }

    /// The simulated time at which a wait for a stream ends.
    pub(crate) fn end_of_wait(&self, id: u64) -> u64 {
        let stream = self.streams.get(id);
        stream.map_or(0, |stream| self.sim_time.end_of_wait(id, stream.kind, stream.device))
    }

    /// Runs the work that is complete by the simulated time.
    fn run_until_now(&mut self) {
        let done = |(id, stream): (u64, &Stream)| Point {
            stream: id,
            position: self.sim_time.done_by_now(id, stream.submitted),
        };
        let done: Vec<Point> = self.streams.iter().map(done).collect();
        self.finish(done);
    }

    /// Chooses a stream whose next item is ready; `None` if there is none, or a script chooses to
    /// run no more.
    fn choose_ready(&mut self) -> Option<u64> {
        let pending = self.streams.pending(Scope::All);
        let ready = |point: &Point| {
            matches!(self.blocker_of(*point), Blocker::Ready) && self.may_run_in_call(point.stream)
        };
        let ready: Vec<Point> = pending.into_iter().filter(ready).collect();
        if ready.is_empty() {
            return None;
        }
        let chosen = match &mut self.choices {
            Choices::None => None,
            Choices::Drawn(random) => Some(random.below(ready.len())),
            Choices::Scripted(script) => script.below(ready.len() + 1).checked_sub(1),
        };
        chosen.map(|chosen| ready[chosen].stream)
    }

    /// Runs one piece of work that is ready. Returns whether there was any.
    pub(crate) fn run_one_ready(&mut self) -> bool {
        let pending = self.streams.pending(Scope::All);
        let is_ready = |point: &Point| matches!(self.blocker_of(*point), Blocker::Ready);
        let next = pending.into_iter().find(is_ready);
        next.inspect(|point| self.run_next(point.stream)).is_some()
    }

    fn run_next(&mut self, id: u64) {
        let state = &mut **self;
        let Some(stream) = state.streams.get_mut(id) else { return };
        let (position, device) = (stream.completed + 1, stream.device);
        if state.tracing
            && let Some(Item { work, .. }) = state.streams.get(id).and_then(|it| it.queue.front())
        {
            let what = state.describe_work(work);
            state.trace.push(TraceEntry::Work { stream: id, position, what });
        }
        let Some(stream) = state.streams.get_mut(id) else { return };
        let Some(Item { work, .. }) = stream.queue.pop_front() else { return };
        stream.running = work.is_callback();
        match work {
            Work::Host { function, data } => {
                self.unlocked(|| {
                    // SAFETY: the caller of `cuLaunchHostFunc` promised that the function may be
                    // called with this parameter, from any thread, once the work before it is
                    // complete.
                    thread::callback(|| unsafe { function(data.0) });
                });
            }
            Work::Kernel(body) => {
                let mut bytes = MachineBytes::new(self, device, body.name);
                let mut memory = KernelMemory::new(&mut bytes, body.places);
                let (run, fails) = (body.run, body.fails);
                let outcome = self.unlocked(|| {
                    thread::callback(|| catch_unwind(AssertUnwindSafe(|| run.run(&mut memory))))
                });
                if outcome.is_err() {
                    self.checks.report(
                        Violation::new(ViolationKind::KernelPanicked).with_detail(body.name),
                    );
                }
                if let Some(code) = fails {
                    self.fail_context(device, code);
                }
            }
            work => {
                // After a panic the item counts as complete too; otherwise its waiters would wait
                // forever.
                if catch_unwind(AssertUnwindSafe(|| self.execute(work, device))).is_err() {
                    self.checks.report_panic("a copy or fill");
                }
            }
        }
        self.streams.complete_one(id);
        self.machine.0.ran.notify_all();
    }

    /// Whether these points are complete. If not, one item that they need runs after the check, so
    /// that a program that polls makes progress.
    pub(crate) fn poll(&mut self, points: &[Point]) -> bool {
        let done = points.iter().all(|&point| self.streams.is_complete(point));
        if !done {
            match self.schedule {
                // Progress comes with simulated time.
                Schedule::Timed => self.keep_clock_going(),
                _ => self.advance(points),
            }
        }
        done
    }

    /// The points of a clock that are not complete.
    pub(crate) fn open_points(&self, points: &VectorClock) -> Vec<Point> {
        points.iter().filter(|&point| !self.streams.is_complete(point)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::machine::Machine;
    use crate::model::memory::Side;

    #[test]
    fn lost_work_is_reported_and_not_waited_for() {
        let machine = Machine::new();
        let mut session = Session::open(&machine);
        let stream = session.contexts[0].legacy_stream;
        let point = session.enqueue(stream, Work::Marker("a mark")).expect("the stream exists");
        let item = session.streams.get_mut(stream).and_then(|stream| stream.queue.pop_front());
        assert!(item.is_some());
        assert!(!session.poll(&[point]));
        assert!(session.poll(&[point]));
        session.finish([point]);
        assert_eq!(session.checks.violations()[0].kind, ViolationKind::DevicePanicked);
    }

    #[test]
    fn work_that_panics_in_the_device_is_reported_and_not_waited_for() {
        let machine = Machine::new();
        let mut session = Session::open(&machine);
        let stream = session.contexts[0].legacy_stream;
        let four_bytes = [0_u8; 4];
        let to = session.place(four_bytes.as_ptr().expose_provenance(), 4, Side::Any);
        let to = to.expect("pageable memory is a place");
        // No call can enqueue this: the place is longer than the bytes that go there.
        let work = Work::Staged { bytes: Box::new([1, 2, 3]), to };
        let point = session.enqueue(stream, work).expect("the stream exists");
        session.finish([point]);
        assert!(session.streams.is_complete(point));
        drop(session);
        let kinds: Vec<ViolationKind> =
            machine.violations().iter().map(|violation| violation.kind).collect();
        assert_eq!(kinds, [ViolationKind::DevicePanicked]);
    }
}
