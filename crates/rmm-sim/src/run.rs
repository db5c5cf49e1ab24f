//! Running queued work: what is needed for something, a little at random, or all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::check::{Violation, ViolationKind};
use crate::current;
use crate::event::{Point, Points};
use crate::kernel::KernelMemory;
use crate::memory::Place;
use crate::session::Session;
use crate::state::State;
use crate::stream::{Item, Work};
use crate::trace::TraceEntry;

/// What stands between now and a point in a stream.
enum Obstacle {
    None,
    /// Another thread is running the stream's next item.
    Running,
    /// The next item has to wait for this.
    Dependency(Point),
    /// Only that the next item has not run.
    Ready,
}

impl State {
    fn obstacle(&self, point: Point) -> Obstacle {
        let Some(stream) = self.streams.get(point.stream) else { return Obstacle::None };
        if stream.completed >= point.position {
            return Obstacle::None;
        }
        if stream.running {
            return Obstacle::Running;
        }
        let Some(item) = stream.queue.front() else { return Obstacle::None };
        let open = item.after.iter().find(|&&point| !self.streams.is_complete(point));
        open.map_or(Obstacle::Ready, |&point| Obstacle::Dependency(point))
    }

    /// Does work that needs no lock to be released for; returns its simulated nanoseconds.
    fn perform(&mut self, work: Work) -> u64 {
        match work {
            Work::Copy { from, to } => {
                if self.is_usable(&from, "a copy") && self.is_usable(&to, "a copy") {
                    self.copy(&from, &to);
                }
                cost(from.bytes)
            }
            Work::Staged { bytes, to } => {
                if self.is_usable(&to, "a copy") {
                    self.store(&to, &bytes);
                }
                cost(bytes.len())
            }
            Work::Fill { to, pattern, width } => {
                if self.is_usable(&to, "a fill") {
                    self.fill(&to, &pattern[..width]);
                }
                cost(to.bytes)
            }
            Work::Record { event, recording } => {
                let clock = self.clock;
                if let Some(event) = self.events.get_mut(&event)
                    && event.recording == recording
                {
                    event.time = Some(clock);
                }
                0
            }
            Work::Release { allocation } => {
                self.allocations.bury(allocation);
                cost(0)
            }
            Work::Mark(_) | Work::Host { .. } | Work::Kernel(_) => cost(0),
        }
    }

    fn tell(&self, work: &Work) -> String {
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
            Work::Record { event, .. } => format!("event {event}"),
            Work::Release { allocation } => format!("release of allocation {allocation}"),
            Work::Mark(what) => String::from(*what),
        }
    }
}

/// What work on so many bytes takes: a microsecond and a nanosecond for each KiB.
fn cost(bytes: usize) -> u64 {
    1000 + (bytes >> 10) as u64
}

impl Session<'_> {
    /// Runs what is needed for these points to be complete, and no more.
    ///
    /// It ends: work only ever waits for work that was enqueued before it.
    pub(crate) fn finish(&mut self, points: impl IntoIterator<Item = Point>) {
        let mut wanted: Vec<Point> = points.into_iter().collect();
        wanted.reverse();
        while let Some(&point) = wanted.last() {
            match self.obstacle(point) {
                Obstacle::None => {
                    wanted.pop();
                }
                Obstacle::Running => self.wait(),
                Obstacle::Dependency(earlier) => wanted.push(earlier),
                Obstacle::Ready => self.run_next(point.stream),
            }
        }
    }

    /// Runs one item that is needed for these points, unless another thread is at it.
    pub(crate) fn advance(&mut self, points: &[Point]) {
        let Some(mut point) =
            points.iter().copied().find(|&point| !self.streams.is_complete(point))
        else {
            return;
        };
        loop {
            match self.obstacle(point) {
                Obstacle::None | Obstacle::Running => return,
                Obstacle::Dependency(earlier) => point = earlier,
                Obstacle::Ready => return self.run_next(point.stream),
            }
        }
    }

    /// Runs all that is queued now, for a device or for all.
    pub(crate) fn run_pending(&mut self, device: Option<usize>) {
        let points = self.streams.pending(device);
        self.finish(points);
    }

    /// Runs a small random number of ready items.
    pub(crate) fn run_some(&mut self) {
        for _ in 0..self.random.below(4) {
            let pending = self.streams.pending(None);
            let ready = |point: &&Point| matches!(self.obstacle(**point), Obstacle::Ready);
            let ready: Vec<Point> = pending.iter().filter(ready).copied().collect();
            if ready.is_empty() {
                return;
            }
            let chosen = self.random.below(ready.len());
            self.run_next(ready[chosen].stream);
        }
    }

    fn run_next(&mut self, id: u64) {
        let state = &mut **self;
        let Some(stream) = state.streams.get_mut(id) else { return };
        let position = stream.completed + 1;
        let Some(Item { work, .. }) = stream.queue.pop_front() else { return };
        stream.running = matches!(work, Work::Host { .. } | Work::Kernel(_));
        if state.tracing {
            let what = state.tell(&work);
            state.trace.push(TraceEntry::Work { stream: id, position, what });
        }
        let took = match work {
            Work::Host { function, data } => {
                self.unlocked(|| {
                    // SAFETY: whoever gave the function to `cuLaunchHostFunc` promised that it may be called once with
                    // this parameter, from any thread, when the work before it is done.
                    current::callback(|| unsafe { function(data.0) });
                });
                cost(0)
            }
            Work::Kernel(body) => {
                let mut memory = KernelMemory::new(self.machine.clone(), body.name, body.places);
                let run = body.run;
                let outcome = self.unlocked(|| {
                    current::callback(|| catch_unwind(AssertUnwindSafe(|| run.run(&mut memory))))
                });
                if outcome.is_err() {
                    self.checks.report(
                        Violation::new(ViolationKind::KernelPanicked).with_detail(body.name),
                    );
                }
                cost(0)
            }
            work => self.perform(work),
        };
        self.clock += took;
        self.streams.complete_one(id);
        self.machine.0.ran.notify_all();
    }

    /// Whether these points are complete. If not, one item that they need runs after the look, so that a program
    /// which asks again and again gets there.
    pub(crate) fn poll(&mut self, points: &[Point]) -> bool {
        let done = points.iter().all(|&point| self.streams.is_complete(point));
        if !done {
            self.advance(points);
        }
        done
    }

    /// The points as a list that can be waited for.
    pub(crate) fn open_points(&self, points: &Points) -> Vec<Point> {
        points.iter().filter(|&point| !self.streams.is_complete(point)).collect()
    }
}
