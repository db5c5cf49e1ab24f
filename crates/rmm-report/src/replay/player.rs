//! The replay loop: a trace's calls in recorded order, on one thread or one per recorded thread.

use std::alloc::Layout;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rmm_core::{CudaStream, DevicePtr, Error, Resource, StreamFlags, StreamId};

use super::device::{ReplayDevice, Work};
use super::options::ReplayOptions;
use crate::trace::{ALIGNMENT, Action, Before, Event, Trace};

/// Events between two reports of progress, which are not part of the time.
const CHUNK: usize = 1 << 14;

/// How logs write the default stream: the null handle, and `cudaStreamLegacy`.
const DEFAULT_STREAMS: [u64; 2] = [0, 1];

/// What a block's slot holds while no block is live there.
const EMPTY: u64 = u64::MAX;

/// A trace made ready: streams, and a slot for each block that is live at the same time.
#[derive(Debug)]
pub(super) struct Player<'a> {
    trace: &'a Trace,
    streams: Vec<CudaStream>,
    slots: Vec<Slot>,
    /// What puts blocks to use, if they are.
    work: Option<&'a dyn Work>,
}

#[derive(Debug)]
struct Slot {
    address: AtomicU64,
    size: AtomicU64,
    stream: AtomicUsize,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) nanos_per_event: f64,
    pub(super) failures: u64,
    /// The first failure with its line, if it has one.
    pub(super) first_failure: Option<String>,
}

/// What failed; line 0 stands for the blocks that were live before the first event.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) count: u64,
    first: Option<(u64, String)>,
}

impl Failures {
    #[cold]
    fn add(&mut self, line: u64, error: &Error) {
        self.count += 1;
        if self.first.as_ref().is_none_or(|&(first, _)| line < first) {
            self.first = Some((line, error.to_string()));
        }
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.first = match (self.first.take(), other.first) {
            (Some(mine), Some(theirs)) => Some(if theirs.0 < mine.0 { theirs } else { mine }),
            (mine, theirs) => mine.or(theirs),
        };
    }

    #[expect(clippy::cast_precision_loss, reason = "nanoseconds for people")]
    fn into_outcome(self, elapsed: Duration, events: usize) -> Outcome {
        Outcome {
            nanos_per_event: elapsed.as_nanos() as f64 / events.max(1) as f64,
            failures: self.count,
            first_failure: self.first_failure(),
        }
    }

    /// The first failure for a person.
    pub(super) fn first_failure(self) -> Option<String> {
        self.first.map(|(line, text)| match line {
            0 => format!("before the first event: {text}"),
            _ => format!("line {line}: {text}"),
        })
    }
}

impl<'a> Player<'a> {
    /// Makes the streams: non-blocking ones, one for each that was recorded, but for the legacy
    /// default stream if that is wanted.
    pub(super) fn new(trace: &'a Trace, options: ReplayOptions) -> Result<Self, Error> {
        let stream = |&handle: &u64| {
            if options.legacy_stream && DEFAULT_STREAMS.contains(&handle) {
                Ok(CudaStream::legacy())
            } else {
                CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
            }
        };
        let streams = trace.streams.iter().map(stream).collect::<Result<_, _>>()?;
        let slot = |_| Slot {
            address: AtomicU64::new(EMPTY),
            size: AtomicU64::new(0),
            stream: AtomicUsize::new(0),
        };
        Ok(Self { trace, streams, slots: (0..trace.blocks).map(slot).collect(), work: None })
    }

    /// The streams, in the order of those that were recorded.
    pub(super) fn stream_ids(&self) -> impl Iterator<Item = StreamId> {
        self.streams.iter().map(CudaStream::id)
    }

    /// Puts every block to use: after it is allocated, and before it is freed.
    pub(super) fn with_work(mut self, work: &'a dyn Work) -> Self {
        self.work = Some(work);
        self
    }

    /// Puts a block to use, if blocks are.
    fn work(
        &self,
        name: &'static str,
        stream: &CudaStream,
        pointer: DevicePtr,
        size: u64,
    ) -> Result<(), Error> {
        let (Some(work), Ok(bytes @ 1..)) = (self.work, usize::try_from(size)) else {
            return Ok(());
        };
        work.enqueue(name, stream, pointer, bytes)
    }

    /// Where a block is, if it was allocated and not freed.
    pub(super) fn address(&self, block: u32) -> Option<DevicePtr> {
        let address = self.slots[block as usize].address.load(Ordering::Relaxed);
        (address != EMPTY).then_some(DevicePtr(address))
    }

    /// Allocates the blocks that were live before the first event; their failures have line 0. The
    /// frees of blocks that are not there do nothing.
    pub(super) fn begin(&self, resource: &impl Resource) -> Failures {
        let mut failures = Failures::default();
        for &Before { block, size, stream, .. } in &self.trace.before {
            let allocate = Action::Allocate { block, size };
            let event = Event { line: 0, thread: 0, stream, action: allocate };
            if let Err(error) = self.step(resource, &event) {
                failures.add(0, &error);
            }
        }
        failures
    }

    /// Makes one call. The order of calls on one slot is the caller's to keep.
    pub(super) fn step(&self, resource: &impl Resource, event: &Event) -> Result<(), Error> {
        let stream = &self.streams[event.stream as usize];
        match event.action {
            Action::Allocate { block, size } => {
                let pointer = resource.allocate(stream, layout(size)?)?;
                let slot = &self.slots[block as usize];
                slot.address.store(pointer.0, Ordering::Relaxed);
                slot.size.store(size, Ordering::Relaxed);
                slot.stream.store(event.stream as usize, Ordering::Relaxed);
                self.work("first use", stream, pointer, size)?;
            }
            Action::Free { block, .. } => {
                let slot = &self.slots[block as usize];
                let address = slot.address.swap(EMPTY, Ordering::Relaxed);
                if address != EMPTY {
                    // The allocation's size: a caller may have built the events of the trace.
                    let size = slot.size.load(Ordering::Relaxed);
                    let used = self.last_use(slot, stream, DevicePtr(address), size);
                    // SAFETY: the slot held a block of this size from this resource, and holds it
                    // no longer. No work uses it.
                    unsafe {
                        resource.deallocate(stream, DevicePtr(address), layout(size)?);
                    };
                    used?;
                }
            }
            Action::AllocateFailure { .. } => {}
        }
        Ok(())
    }

    /// Uses a block on the stream that frees it, behind the one that it was allocated on.
    fn last_use(
        &self,
        slot: &Slot,
        stream: &CudaStream,
        pointer: DevicePtr,
        size: u64,
    ) -> Result<(), Error> {
        if self.work.is_none() {
            return Ok(());
        }
        let allocated_on = &self.streams[slot.stream.load(Ordering::Relaxed)];
        if allocated_on.as_raw() != stream.as_raw() {
            stream.wait_for(allocated_on)?;
        }
        self.work("last use", stream, pointer, size)
    }

    /// Frees what is still live; returns how many blocks and bytes that was.
    pub(super) fn free_leftovers(&self, resource: &impl Resource) -> (u64, u64) {
        let (mut blocks, mut bytes) = (0, 0);
        for slot in &self.slots {
            let address = slot.address.swap(EMPTY, Ordering::Relaxed);
            let size = slot.size.load(Ordering::Relaxed);
            let stream = &self.streams[slot.stream.load(Ordering::Relaxed)];
            if address != EMPTY
                && let Ok(layout) = layout(size)
            {
                // SAFETY: as in `step`.
                unsafe { resource.deallocate(stream, DevicePtr(address), layout) };
                blocks += 1;
                bytes += size.next_multiple_of(ALIGNMENT);
            }
        }
        (blocks, bytes)
    }

    /// Makes all calls on this thread. The time is that of the events.
    pub(super) fn run(&self, resource: &impl Resource, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
        let mut failures = self.begin(resource);
        let mut elapsed = Duration::ZERO;
        for chunk in self.trace.events.chunks(CHUNK) {
            let start = Instant::now();
            for event in chunk {
                if let Err(error) = self.step(resource, event) {
                    failures.add(event.line, &error);
                }
            }
            elapsed += start.elapsed();
            progress(chunk.len() as u64);
        }
        failures.into_outcome(elapsed, self.trace.events.len())
    }

    /// Makes the calls of each recorded thread on a thread of its own; the threads take turns in
    /// the recorded order.
    pub(super) fn run_threads(
        &self,
        resource: &impl Resource,
        device: &impl ReplayDevice,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Outcome, Error> {
        let turns = Turns {
            events: &self.trace.events,
            next: AtomicUsize::new(0),
            threads: Mutex::default(),
        };
        let failures = Mutex::new(self.begin(resource));
        let ready = std::sync::Barrier::new(self.trace.threads.len() + 1);
        let refused: Mutex<Option<Error>> = Mutex::new(None);
        let elapsed = thread::scope(|scope| {
            for index in 0..self.trace.threads.len() {
                let (turns, failures, ready, refused) = (&turns, &failures, &ready, &refused);
                let work = move || {
                    let current = device.enter();
                    turns.register(index, thread::current());
                    if let Err(error) = &current {
                        let text = format!("thread {index}: {error}");
                        lock(refused).get_or_insert(Error::invalid_argument("replay", text));
                    }
                    ready.wait(); // all threads are registered
                    ready.wait(); // the clock runs, unless a thread could not start
                    if lock(refused).is_some() {
                        return;
                    }
                    let mut mine = Failures::default();
                    turns.take(index, |event| {
                        if let Err(error) = self.step(resource, event) {
                            mine.add(event.line, &error);
                        }
                    });
                    lock(failures).merge(mine);
                };
                scope.spawn(work);
            }
            ready.wait();
            let start = Instant::now();
            ready.wait();
            start
        })
        .elapsed();
        if let Some(error) = lock(&refused).take() {
            return Err(error);
        }
        progress(self.trace.events.len() as u64);
        let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(failures.into_outcome(elapsed, self.trace.events.len()))
    }
}

/// Whose turn it is.
struct Turns<'a> {
    events: &'a [Event],
    next: AtomicUsize,
    /// Index: the recorded thread's.
    threads: Mutex<Vec<(usize, Thread)>>,
}

impl Turns<'_> {
    fn register(&self, index: usize, thread: Thread) {
        lock(&self.threads).push((index, thread));
    }

    /// Calls `step` with each event of thread `index`, each in its turn.
    fn take(&self, index: usize, mut step: impl FnMut(&Event)) {
        let threads: Vec<(usize, Thread)> = lock(&self.threads).clone();
        loop {
            // Acquire and release: what a thread did in its turn is seen by the next.
            let turn = self.next.load(Ordering::Acquire);
            let Some(event) = self.events.get(turn) else { break };
            if event.thread as usize == index {
                step(event);
                self.next.store(turn + 1, Ordering::Release);
                let next = self.events.get(turn + 1).map(|event| event.thread as usize);
                if next != Some(index) {
                    // At the end all threads have to wake up.
                    let wake =
                        |&&(other, _): &&(usize, Thread)| next.is_none_or(|next| next == other);
                    threads.iter().filter(wake).for_each(|(_, thread)| thread.unpark());
                }
            } else {
                thread::park();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn layout(size: u64) -> Result<Layout, Error> {
    usize::try_from(size).ok().and_then(|size| Layout::from_size_align(size, 256).ok()).ok_or_else(
        || Error::invalid_argument("replay", format!("{size} bytes are too many for this machine")),
    )
}

#[cfg(test)]
mod tests {
    use rmm_adaptors::StatisticsResourceAdaptor;
    use rmm_resources::CudaMemoryResource;

    use super::*;
    use crate::trace::read_from;

    #[test]
    fn a_block_is_freed_with_the_size_it_was_allocated_with() {
        let _machine = rmm_sim::enter();
        let log = "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,0x10,1000,0\n\
                   1,0,free,0x10,1000,0\n";
        let mut trace = read_from("log.csv", log.as_bytes()).expect("a log");
        trace.events[1].action = Action::Free { block: 0, size: 10 };
        let resource = StatisticsResourceAdaptor::new(CudaMemoryResource::new());
        let player = Player::new(&trace, ReplayOptions::default()).expect("streams");
        player.run(&resource, &|_| ());
        assert_eq!(resource.bytes_counter().value, 0);
    }

    #[test]
    fn blocks_from_before_the_log_are_allocated_first() {
        let _machine = rmm_sim::enter();
        let log = "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,0x30,1000,0\n\
                   1,0,free,0x20,600,7\n1,0,free,0x30,1000,0\n1,0,free,0x10,5000,0\n";
        let trace = read_from("log.csv", log.as_bytes()).expect("a log");
        let resource = StatisticsResourceAdaptor::new(CudaMemoryResource::new());
        let player = Player::new(&trace, ReplayOptions::default()).expect("streams");
        let outcome = player.run(&resource, &|_| ());
        let bytes = resource.bytes_counter();
        assert_eq!((outcome.failures, bytes.value, bytes.peak), (0, 0, 6600));
        assert_eq!(player.free_leftovers(&resource), (0, 0));
    }

    #[test]
    fn a_block_from_before_the_log_that_does_not_fit_is_a_failure() {
        let machine = rmm_sim::Machine::builder().memory(1 << 20).build();
        let _entered = machine.enter();
        let log = "Thread,Time,Action,Pointer,Size,Stream\n1,0,free,0x20,2000000,7\n";
        let trace = read_from("log.csv", log.as_bytes()).expect("a log");
        let player = Player::new(&trace, ReplayOptions::default()).expect("streams");
        let outcome = player.run(&CudaMemoryResource::new(), &|_| ());
        assert_eq!(outcome.failures, 1);
        let first = outcome.first_failure.expect("one failed");
        assert!(first.starts_with("before the first event: "), "{first}");
    }
}
