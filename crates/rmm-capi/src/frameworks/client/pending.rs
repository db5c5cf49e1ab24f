//! The pending blocks of a client: those that were freed and wait for recorded streams.
//!
//! ```text
//!             deferred: [block] [block]            a capture goes on: no event is recorded yet
//!   stream A: [event, block 1] [event, block 3]    completes in this order
//!   stream B: [event, block 1] [event, block 2]    slow: only blocks 1 and 2 wait for it
//! ```
//!
//! A stream's events complete in their order, so if the first is not complete none is. A block is
//! free when none of the queues has it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use rmm_core::backoff::spin_until;
use rmm_core::sys::CuStream;
use rmm_core::{Context, CudaEvent, Error, RelaxedCapture, StreamId, StreamRef, fork};

/// Events that are kept for the next use.
const MOST_SPARE: usize = 64;

/// Queries without a result after which a poll ends.
const MOST_QUERIES: usize = 8;

/// How long a thread waits for others that are returning blocks. They do so without a wait, unless
/// a resource of the program waits in its free for what the waiting thread has.
const LONGEST_RETURN: Duration = Duration::from_secs(1);

thread_local! {
    /// How often this thread has taken blocks out and not returned them yet.
    static TAKINGS: Cell<usize> = const { Cell::new(0) };
}

/// A stream that uses a block and was recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedStream {
    pub(crate) handle: CuStream,
    /// The handle may name another stream later, and that of a thread's own default stream does on
    /// another thread.
    pub(crate) id: StreamId,
    /// `None` for a default stream, which is of the block's device.
    pub(crate) context: Option<Context>,
    /// Whether it was captured each time that it was recorded.
    pub(crate) is_captured: bool,
}

/// A block whose free waits for the end of a capture.
#[derive(Debug)]
pub(crate) struct DeferredBlock {
    pub(crate) address: usize,
    pub(crate) recorded: Vec<RecordedStream>,
}

/// A block that waits for events.
#[derive(Debug)]
struct WaitingBlock {
    address: usize,
    /// Events that are not known to be complete. Changed under the lock of the queues.
    events_left: AtomicUsize,
}

/// The use of a block by a stream.
#[derive(Debug)]
struct StreamUse {
    event: Arc<CudaEvent>,
    /// Counts uses: an older one has a lower number.
    number: u64,
    block: Arc<WaitingBlock>,
}

/// The uses of a stream, oldest first. Never empty.
#[derive(Debug)]
struct StreamUses {
    stream: StreamId,
    uses: VecDeque<StreamUse>,
}

#[derive(Debug, Default)]
struct Queues {
    deferred: Vec<DeferredBlock>,
    /// The one that is polled next comes first.
    streams: VecDeque<StreamUses>,
    spare: Vec<CudaEvent>,
    /// The number of the next use.
    next: u64,
    /// The numbers of takings whose blocks are not all returned yet.
    takings: Vec<u64>,
    next_taking: u64,
}

/// The pending blocks of a client.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Lock order: leaf. No resource is called, and nothing waits for the device, under it.
    queues: Mutex<Queues>,
    /// Pending blocks, with those that a thread is returning.
    blocks: AtomicUsize,
}

/// Blocks that were taken out, to be returned to their resources by this thread.
#[derive(Debug)]
pub(crate) struct TakenBlocks<'a, T> {
    pending: &'a Pending,
    /// `None` if there are no blocks.
    taking: Option<u64>,
    pub(crate) blocks: Vec<T>,
}

impl<T> Drop for TakenBlocks<'_, T> {
    fn drop(&mut self) {
        if let Some(taking) = self.taking {
            TAKINGS.with(|takings| takings.set(takings.get() - 1));
            self.pending.lock().takings.retain(|&other| other != taking);
        }
    }
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        fork::lock(&self.queues)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Queues>> {
        match self.queues.try_lock() {
            Ok(queues) => Some(queues),
            Err(TryLockError::Poisoned(queues)) => Some(queues.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether no block is pending.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // A thread that has freed a block sees it, and others poll later.
        self.blocks.load(Ordering::Relaxed) == 0
    }

    /// Waits until the blocks are returned that other threads have taken out before. False if one
    /// is not after a while, or this thread is returning blocks, in a function that a resource
    /// calls.
    pub(crate) fn await_returns(&self) -> bool {
        let end = self.lock().next_taking;
        let are_returned = || self.lock().takings.iter().all(|&taking| taking >= end);
        if TAKINGS.with(Cell::get) == 0 {
            let started = Instant::now();
            spin_until(|| are_returned() || started.elapsed() > LONGEST_RETURN);
        }
        are_returned()
    }

    /// Counts a block that becomes pending: once, before it is deferred or waits.
    pub(crate) fn add(&self) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a block that was returned.
    pub(crate) fn remove(&self) {
        self.blocks.fetch_sub(1, Ordering::Relaxed);
    }

    /// Keeps a block until the capture is over.
    pub(crate) fn defer(&self, block: DeferredBlock) {
        self.lock().deferred.push(block);
    }

    /// Takes the deferred blocks out.
    pub(crate) fn take_deferred(&self) -> TakenBlocks<'_, DeferredBlock> {
        let mut queues = self.lock();
        let blocks = std::mem::take(&mut queues.deferred);
        TakenBlocks { pending: self, taking: queues.begin_taking(blocks.len()), blocks }
    }

    /// Records an event on a stream.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn record(&self, stream: StreamRef<'_>) -> Result<CudaEvent, Error> {
        let _entered = stream.own_context().map(Context::enter).transpose()?;
        let context = Context::current()?;
        let spare = {
            let spare = &mut self.lock().spare;
            let found = spare.iter().position(|event| event.context() == context);
            found.map(|index| spare.swap_remove(index))
        };
        let event = spare.map_or_else(CudaEvent::new, Ok)?;
        event.record(stream)?;
        Ok(event)
    }

    /// Makes a block wait for events, each with its stream. There is one at least.
    pub(crate) fn wait_for(&self, address: usize, events: Vec<(StreamId, CudaEvent)>) {
        let events_left = AtomicUsize::new(events.len());
        let block = Arc::new(WaitingBlock { address, events_left });
        let mut queues = self.lock();
        for (stream, event) in events {
            let number = queues.next;
            queues.next += 1;
            let this = StreamUse { event: Arc::new(event), number, block: Arc::clone(&block) };
            match queues.streams.iter_mut().find(|uses| uses.stream == stream) {
                Some(known) => known.uses.push_back(this),
                None => queues.streams.push_back(StreamUses { stream, uses: [this].into() }),
            }
        }
    }

    /// Takes the addresses of blocks out whose events are complete: a few, or all. None if another
    /// thread does it now and only a few are wanted.
    pub(crate) fn take_complete(&self, all: bool) -> Option<TakenBlocks<'_, usize>> {
        let mut queues = if all { self.lock() } else { self.try_lock()? };
        // A query must not invalidate a capture that was not announced.
        let _relaxed = (!queues.streams.is_empty()).then(RelaxedCapture::enter);
        let (mut queries, mut late) = (0, 0);
        let mut blocks = Vec::new();
        // Once around without a complete event is enough.
        while late < queues.streams.len() && (all || queries < MOST_QUERIES) {
            queries += 1;
            if queues.first_is_complete() {
                late = 0;
                blocks.extend(queues.pop());
            } else {
                late += 1;
                queues.streams.rotate_left(1);
            }
        }
        Some(TakenBlocks { pending: self, taking: queues.begin_taking(blocks.len()), blocks })
    }

    /// The number that the next use gets.
    pub(crate) fn next_use(&self) -> u64 {
        self.lock().next
    }

    /// The event of the oldest use before the one with this number.
    pub(crate) fn oldest_before(&self, number: u64) -> Option<Arc<CudaEvent>> {
        let queues = self.lock();
        let first = queues.streams.iter().filter_map(|uses| uses.uses.front());
        let oldest = first.min_by_key(|this| this.number)?;
        (oldest.number < number).then(|| Arc::clone(&oldest.event))
    }
}

impl Queues {
    /// Notes that this thread takes this number of blocks out.
    fn begin_taking(&mut self, blocks: usize) -> Option<u64> {
        if blocks == 0 {
            return None;
        }
        let taking = self.next_taking;
        self.next_taking += 1;
        self.takings.push(taking);
        TAKINGS.with(|takings| takings.set(takings.get() + 1));
        Some(taking)
    }

    /// Whether the first use of the first stream is complete. If the driver refuses to say, it is
    /// not: the memory may be in use.
    fn first_is_complete(&self) -> bool {
        let first = self.streams.front().and_then(|uses| uses.uses.front());
        first.is_some_and(|this| this.event.is_complete().unwrap_or(false))
    }

    /// Removes the first use of the first stream. Returns its block if that was its last.
    fn pop(&mut self) -> Option<usize> {
        let stream = self.streams.front_mut()?;
        let StreamUse { event, block, .. } = stream.uses.pop_front()?;
        if stream.uses.is_empty() {
            let _empty = self.streams.pop_front();
        }
        // Another thread that waits for the event has it, too, else it can be recorded anew.
        if let Some(event) = Arc::into_inner(event)
            && self.spare.len() < MOST_SPARE
        {
            self.spare.push(event);
        }
        // Relaxed: the lock orders it.
        let was_last = block.events_left.fetch_sub(1, Ordering::Relaxed) == 1;
        was_last.then_some(block.address)
    }
}
