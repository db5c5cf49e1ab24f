//! The threads of a stress round.

use std::ops::AddAssign;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rmm_conformance::{
    CheckResult, CheckedBlock, DeviceCounter, DeviceHandle, Failure, Kernels, Random,
};
use rmm_core::{CudaEvent, CudaStream, Resource};

use super::lanes::Lanes;
use super::watch::Board;

const THREADS: usize = 8;
/// The most blocks that a thread holds before it frees one.
const HELD: usize = 6;
/// Words of the smallest blocks, 256 bytes. The largest are 2^14 times as many: 4 MiB.
const LEAST_WORDS: u32 = 64;
const SCALES: u32 = 15;
/// Cycles of the longest stalls, 2 ms or so.
const LONG: u32 = 4_000_000;
/// Cycles of most stalls: up to 0.1 ms.
const SHORT: u32 = 200_000;

/// What a round did.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Figures {
    pub(super) allocations: u64,
    pub(super) refusals: u64,
    /// Frees on another stream than the block was allocated on.
    pub(super) frees_elsewhere: u64,
    /// Blocks that went to another thread.
    pub(super) handed_on: u64,
    /// Words that were compared with what they were filled with.
    pub(super) words_checked: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.allocations += other.allocations;
        self.refusals += other.refusals;
        self.frees_elsewhere += other.frees_elsewhere;
        self.handed_on += other.handed_on;
        self.words_checked += other.words_checked;
    }
}

/// What every thread of a round has to hand.
pub(super) struct Round<'a, R> {
    pub(super) device: &'a DeviceHandle,
    pub(super) kernels: &'a Kernels,
    pub(super) resource: &'a R,
    /// Returns unused memory to the upstream.
    pub(super) trim: fn(&R),
    pub(super) seed: u64,
    /// Steps of each thread.
    pub(super) steps: u32,
}

/// A block and its words, the first of those that it was filled with, and whether it has left the
/// stream that it was allocated on.
struct Held<'a, R: Resource> {
    block: CheckedBlock<'a, R>,
    words: u32,
    value: u32,
    has_moved: bool,
}

/// A block on its way to the next thread, and the mark behind its uses.
type Parcel<'a, R> = (Held<'a, R>, CudaEvent);

struct Worker<'a, R: Resource> {
    number: usize,
    board: &'a Board,
    round: &'a Round<'a, R>,
    lanes: &'a Lanes,
    errors: &'a DeviceCounter,
    random: Random,
    held: Vec<Held<'a, R>>,
    figures: Figures,
}

impl<R: Resource> Round<'_, R> {
    /// Runs the threads, waits for the device, and fails if a word was wrong.
    pub(super) fn run(&self) -> Result<Figures, Failure> {
        let own = CudaStream::new()?;
        let (errors, lanes) = (DeviceCounter::new(&own)?, Lanes::new()?);
        let board = Board::new(THREADS);
        let (mut senders, mut receivers): (Vec<_>, Vec<_>) =
            (0..THREADS).map(|_| channel()).unzip();
        senders.rotate_left(1);
        let outcomes: Vec<Result<Figures, Failure>> = board.watch(|| {
            thread::scope(|scope| {
                let channels = senders.drain(..).zip(receivers.drain(..));
                let start = |(number, (next, from_previous)): (usize, _)| {
                    let (errors, lanes, board) = (&errors, &lanes, &board);
                    scope.spawn(move || {
                        let _current = self.device.make_current()?;
                        let seed =
                            self.seed.wrapping_mul(THREADS as u64).wrapping_add(number as u64);
                        let (random, held) = (Random::new(seed), Vec::new());
                        let figures = Figures::default();
                        let worker = Worker {
                            number,
                            board,
                            round: self,
                            lanes,
                            errors,
                            random,
                            held,
                            figures,
                        };
                        worker.work(next, &from_previous)
                    })
                };
                let threads: Vec<_> = (0..THREADS).zip(channels).map(start).collect();
                let panicked = |_| Err(Failure::new("a thread panicked"));
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
            })
        });
        let mut total = Figures::default();
        for outcome in outcomes {
            total += outcome?;
        }
        errors.expect_none(&own, "another owner wrote to live blocks")?;
        Ok(total)
    }
}

impl<'a, R: Resource> Worker<'a, R> {
    fn work(
        mut self,
        next: Sender<Parcel<'a, R>>,
        from_previous: &Receiver<Parcel<'a, R>>,
    ) -> Result<Figures, Failure> {
        for _ in 0..self.round.steps {
            if let Ok(parcel) = from_previous.try_recv() {
                self.take_in(parcel)?;
            }
            match self.random.below(32) {
                0..=12 if self.held.len() < HELD => self.allocate()?,
                0..=18 => self.free()?,
                19..=23 => self.look()?,
                24..=27 => self.hand_on(&next)?,
                28..=29 => self.stall_any()?,
                30 => self.synchronize()?,
                _ => self.trim(),
            }
        }
        drop(next);
        self.begin("wait for parcels");
        for parcel in from_previous {
            self.take_in(parcel)?;
            self.begin("wait for parcels");
        }
        while !self.held.is_empty() {
            self.free()?;
        }
        self.begin("end");
        Ok(self.figures)
    }

    fn begin(&self, what: &'static str) {
        self.board.begin(self.number, what);
    }

    fn synchronize(&mut self) -> CheckResult {
        self.begin("synchronize");
        Ok(self.lanes.pick(&mut self.random)?.synchronize()?)
    }

    fn trim(&self) {
        self.begin("trim");
        (self.round.trim)(self.round.resource);
    }

    fn allocate(&mut self) -> CheckResult {
        let most = LEAST_WORDS << self.random.below(SCALES);
        let words = (most - self.random.below(most / 2)).max(LEAST_WORDS);
        let Round { resource, kernels, .. } = self.round;
        let stream = self.lanes.pick(&mut self.random)?;
        self.begin("allocate");
        match CheckedBlock::allocate(*resource, kernels, &stream, words) {
            Ok(block) => {
                let value = self.random.next_u32();
                self.begin("fill");
                block.fill(value, self.stall())?;
                self.held.push(Held { block, words, value, has_moved: false });
                self.figures.allocations += 1;
                Ok(())
            }
            Err(error) if error.is_out_of_memory() => {
                self.figures.refusals += 1;
                self.free()
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Checks a block and frees it: on the stream that it is on, or on another one.
    fn free(&mut self) -> CheckResult {
        let Some(mut held) = self.pick() else { return Ok(()) };
        self.begin("check before a free");
        if self.random.below(3) == 0 {
            self.move_on(&mut held)?;
        }
        self.stall_some(held.block.stream())?;
        self.check(&held)?;
        self.stall_some(held.block.stream())?;
        self.figures.frees_elsewhere += u64::from(held.has_moved);
        self.begin("free");
        drop(held);
        Ok(())
    }

    /// Checks a block, perhaps on another stream, and fills it anew.
    fn look(&mut self) -> CheckResult {
        let Some(mut held) = self.pick() else { return Ok(()) };
        self.begin("look");
        if self.random.below(2) == 0 {
            self.move_on(&mut held)?;
        }
        self.check(&held)?;
        held.value = self.random.next_u32();
        held.block.fill(held.value, self.stall())?;
        self.held.push(held);
        Ok(())
    }

    /// Has the device count the words that are wrong.
    fn check(&mut self, held: &Held<'a, R>) -> CheckResult {
        self.figures.words_checked += u64::from(held.words);
        held.block.check(held.value, self.errors)
    }

    fn move_on(&mut self, held: &mut Held<'a, R>) -> CheckResult {
        let stream = self.lanes.pick(&mut self.random)?;
        held.has_moved |= stream != *held.block.stream();
        Ok(held.block.move_to(&stream)?)
    }

    fn hand_on(&mut self, next: &Sender<Parcel<'a, R>>) -> CheckResult {
        let Some(held) = self.pick() else { return Ok(()) };
        self.begin("hand on");
        let used = held.block.depart()?;
        self.figures.handed_on += 1;
        // If the next thread has failed, the block comes back and is freed here; that thread says
        // why.
        let _ignored = next.send((held, used));
        Ok(())
    }

    fn take_in(&mut self, (mut held, used): Parcel<'a, R>) -> CheckResult {
        self.begin("take in");
        let stream = self.lanes.pick(&mut self.random)?;
        held.block.arrive(&stream, &used)?;
        held.has_moved = true;
        self.check(&held)?;
        self.held.push(held);
        Ok(())
    }

    fn pick(&mut self) -> Option<Held<'a, R>> {
        let count = self.held.len();
        (count > 0).then(|| self.held.swap_remove(self.random.index(count)))
    }

    /// Cycles for a stream to stand still: half of the time none.
    fn stall(&mut self) -> u64 {
        match self.random.below(16) {
            0 => u64::from(self.random.below(LONG)),
            1..=7 => u64::from(self.random.below(SHORT)),
            _ => 0,
        }
    }

    fn stall_some(&mut self, stream: &CudaStream) -> CheckResult {
        match self.stall() {
            0 => Ok(()),
            cycles => self.round.kernels.stall(stream.as_stream_ref(), cycles),
        }
    }

    fn stall_any(&mut self) -> CheckResult {
        let stream = self.lanes.pick(&mut self.random)?;
        self.round.kernels.stall(stream.as_stream_ref(), u64::from(self.random.below(LONG)))
    }
}
