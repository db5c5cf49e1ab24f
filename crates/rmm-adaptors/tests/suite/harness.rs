//! Test harness: runs random programs over a suballocator, with tagged blocks on several streams.
//! Driver calls may fail meanwhile.

use std::alloc::Layout;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmm_adaptors::{ArenaMemoryResource, PoolMemoryResource};
use rmm_core::{
    CudaEvent, CudaStream, DevicePtr, Error, Resource, StreamFlags, StreamKind, StreamLifetime,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

use crate::programs::{Op, STREAMS};
use crate::support::Pool;
use crate::tag_kernels::{self, Mismatches};

const FIRST_BLOCKING: usize = 3;
const LEGACY: usize = 5;
const PER_THREAD: usize = 6;
const FOREIGN: usize = 7;

/// A stream of a program.
#[derive(Clone)]
struct TestStream {
    /// The owner of a foreign stream. Dropped first, before the pool is notified that the adopted
    /// stream is gone.
    _owner: Option<CudaStream>,
    stream: CudaStream,
}

impl std::ops::Deref for TestStream {
    type Target = CudaStream;

    fn deref(&self) -> &CudaStream {
        &self.stream
    }
}

struct Live {
    pointer: DevicePtr,
    layout: Layout,
    tag: u64,
    /// A clone: a block may outlive the stream's entry in `streams`.
    stream: TestStream,
}

/// A block handed over to another thread, and the event after its last use.
struct HandedOver {
    live: Live,
    used: CudaEvent,
}

/// The resource under test.
pub(crate) trait Allocator: Resource + Clone {
    /// Returns unused memory to upstream, if the resource can. Returns the number of bytes.
    fn trim(&self) -> u64 {
        0
    }

    /// Bytes allocated from upstream.
    fn reserved(&self) -> u64;

    /// Waits of streams and of the host.
    fn waits(&self) -> u64;

    /// Bytes of live blocks, and unknown frees.
    fn live_and_unknown(&self) -> (u64, u64);
}

/// Implements the methods that only read `statistics()`.
macro_rules! waits_and_live_from_statistics {
    () => {
        fn waits(&self) -> u64 {
            let statistics = self.statistics();
            statistics.stream_waits + statistics.host_waits
        }

        fn live_and_unknown(&self) -> (u64, u64) {
            let statistics = self.statistics();
            (statistics.live_bytes, statistics.unknown_frees)
        }
    };
}
pub(crate) use waits_and_live_from_statistics;

impl Allocator for PoolMemoryResource {
    fn trim(&self) -> u64 {
        PoolMemoryResource::trim(self, 0)
    }

    fn reserved(&self) -> u64 {
        self.reserved_bytes()
    }

    crate::harness::waits_and_live_from_statistics!();
}

impl Allocator for ArenaMemoryResource {
    fn reserved(&self) -> u64 {
        self.arena_size()
    }

    crate::harness::waits_and_live_from_statistics!();
}

/// What the threads of a program share: the resource, and the blocks that they hand over to each
/// other.
#[derive(Clone)]
pub(crate) struct Fixture<R = Pool> {
    machine: Machine,
    pool: R,
    /// Bytes of a granule.
    granule: usize,
    handed_over: Arc<Mutex<Vec<HandedOver>>>,
    mismatches: Mismatches,
}

/// Examines a failed allocation: the resource, the live blocks as addresses and bytes, and the
/// bytes that were requested.
type Judge<R> = Box<dyn Fn(&R, &[(u64, u64)], u64)>;

/// One thread of a running program.
pub(crate) struct Runner<R = Pool> {
    fixture: Fixture<R>,
    judge: Option<Judge<R>>,
    streams: Vec<TestStream>,
    live: Vec<Live>,
    /// The addresses of all allocations, in order; `None` where one failed.
    pub(crate) addresses: Vec<Option<DevicePtr>>,
    next_tag: u64,
    /// Driver calls of the program itself that failed.
    pub(crate) failed_calls: u64,
    /// Allocations that failed.
    pub(crate) failed_allocations: u64,
}

fn new_stream() -> Result<CudaStream, Error> {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
}

/// The stream of an index.
fn stream_at(place: usize) -> Result<TestStream, Error> {
    let own = |stream| TestStream { _owner: None, stream };
    match place % STREAMS {
        LEGACY => Ok(own(CudaStream::legacy())),
        PER_THREAD => Ok(own(CudaStream::per_thread())),
        FOREIGN => foreign_stream(),
        FIRST_BLOCKING.. => CudaStream::new().map(own),
        _ => new_stream().map(own),
    }
}

/// A stream whose owner destroys it without notifying the pool.
fn foreign_stream() -> Result<TestStream, Error> {
    let owner = CudaStream::new()?;
    // SAFETY: the stream exists for as long as blocks are used or freed on it: each keeps a clone
    // of the `TestStream`.
    let stream = unsafe { CudaStream::adopt(owner.as_raw(), StreamLifetime::Unknown) }?;
    Ok(TestStream { _owner: Some(owner), stream })
}

/// Whether two streams are ordered implicitly.
fn order_themselves(first: &CudaStream, second: &CudaStream) -> bool {
    let is_legacy = |stream: &CudaStream| stream.kind() == StreamKind::Legacy;
    (is_legacy(first) && !second.is_non_blocking())
        || (is_legacy(second) && !first.is_non_blocking())
}

/// Makes `second` wait for all work enqueued on `first` so far.
pub(crate) fn order(first: &CudaStream, second: &CudaStream) -> Result<(), Error> {
    let event = CudaEvent::new()?;
    event.record(first)?;
    second.wait(&event)
}

impl Fixture {
    /// A pool of `limit` bytes on a machine that the thread has entered.
    pub(crate) fn new(machine: &Machine, limit: u64) -> Self {
        let builder = Pool::builder(CudaMemoryResource::new());
        Self::over(machine, builder.maximum_size(limit).build().expect("a pool"))
    }
}

impl<R: Allocator> Fixture<R> {
    /// For a resource that was made on a machine that the thread has entered.
    pub(crate) fn over(machine: &Machine, pool: R) -> Self {
        Self::in_granules(machine, pool, 256)
    }

    /// For a resource whose blocks are multiples of `granule` bytes.
    pub(crate) fn in_granules(machine: &Machine, pool: R, granule: usize) -> Self {
        let (handed_over, mismatches) = (Arc::default(), Mismatches::default());
        Self { machine: machine.clone(), pool, granule, handed_over, mismatches }
    }

    fn handed_over(&self) -> MutexGuard<'_, Vec<HandedOver>> {
        self.handed_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The resource under test.
    pub(crate) fn pool(&self) -> &R {
        &self.pool
    }

    /// Runs all work, once every thread has freed its blocks, and checks that no block was
    /// overwritten while in use and that no block is live.
    pub(crate) fn finish(&self) {
        self.machine.run_all();
        assert_eq!(self.mismatches.count(), 0, "a block was overwritten while it was in use");
        assert_eq!(self.pool.live_and_unknown(), (0, 0), "blocks are left, or others were freed");
    }
}

impl Runner {
    /// A program on one thread with its own pool of `limit` bytes, on a machine that the thread has
    /// entered.
    pub(crate) fn new(machine: &Machine, limit: u64) -> Self {
        Self::sharing(Fixture::new(machine, limit), 0)
    }
}

impl<R: Allocator> Runner<R> {
    /// One thread of a program, on a thread that has entered the machine. Threads of one program
    /// have different numbers.
    pub(crate) fn sharing(fixture: Fixture<R>, number: u64) -> Self {
        Self::on_streams(fixture, number, STREAMS)
    }

    /// One thread of a program on `streams` streams, whose kinds repeat. Otherwise as
    /// [`sharing`](Self::sharing).
    pub(crate) fn on_streams(fixture: Fixture<R>, number: u64, streams: usize) -> Self {
        Self {
            fixture,
            judge: None,
            streams: (0..streams).map(|place| stream_at(place).expect("a stream")).collect(),
            live: Vec::new(),
            addresses: Vec::new(),
            next_tag: number << 48 | 1,
            failed_calls: 0,
            failed_allocations: 0,
        }
    }

    /// Calls `judge` for each failed allocation. No other thread may have blocks of the resource.
    pub(crate) fn judge_failures(&mut self, judge: impl Fn(&R, &[(u64, u64)], u64) + 'static) {
        self.judge = Some(Box::new(judge));
    }

    /// The resource under test.
    pub(crate) fn pool(&self) -> &R {
        &self.fixture.pool
    }

    /// Runs one step. If the driver fails a call of the program itself, the step is skipped.
    pub(crate) fn step(&mut self, op: &Op) {
        match *op {
            Op::Allocate { stream, granules } => self.allocate(stream, granules, false),
            Op::AllocateSync { stream, granules } => self.allocate(stream, granules, true),
            Op::Free { which } => self.free(which, None),
            Op::FreeElsewhere { which, stream } => self.free(which, Some(stream)),
            Op::FreeAfterWaiting { which, stream } => {
                let place = self.pick_synchronized(which);
                if let Some((live, is_done)) = place {
                    let stream =
                        if is_done { self.streams[stream].clone() } else { live.stream.clone() };
                    self.free_on(&live, &stream);
                }
            }
            Op::FreeSync { which } => self.free_sync(which),
            Op::HandOver { which } => self.hand_over(which),
            Op::FreeHandedOver { stream } => self.free_handed_over(stream),
            Op::Replace { stream } => {
                if let Some(new) = self.attempt(stream_at(stream)) {
                    self.streams[stream] = new;
                }
            }
            Op::Synchronize { stream } => {
                let done = self.streams[stream].synchronize();
                self.attempt(done);
            }
            Op::Wait { stream, other } => {
                let ordered = order(&self.streams[other], &self.streams[stream]);
                self.attempt(ordered);
            }
            Op::Trim => {
                self.pool().trim();
            }
        }
    }

    fn attempt<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        self.failed_calls += u64::from(result.is_err());
        result.ok()
    }

    fn allocate(&mut self, stream: usize, granules: usize, sync: bool) {
        let stream = self.streams[stream].clone();
        let layout =
            Layout::from_size_align(granules * self.fixture.granule, 256).expect("a small size");
        let allocated = if sync {
            self.pool().allocate_sync(layout)
        } else {
            self.pool().allocate(&*stream, layout)
        };
        self.addresses.push(allocated.as_ref().ok().copied());
        let pointer = match allocated {
            Ok(pointer) => pointer,
            Err(error) => {
                self.failed_allocations += 1;
                self.judge(&error, layout);
                return;
            }
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        tag_kernels::write(&self.fixture.machine, &stream, pointer, layout.size(), tag);
        self.live.push(Live { pointer, layout, tag, stream });
    }

    fn judge(&self, error: &Error, asked: Layout) {
        let Some(judge) = &self.judge else { return };
        assert!(error.is_out_of_memory(), "{error}");
        let left = self.fixture.handed_over();
        let live = self.live.iter().chain(left.iter().map(|left| &left.live));
        let mut live: Vec<(u64, u64)> =
            live.map(|live| (live.pointer.0, live.layout.size() as u64)).collect();
        live.sort_unstable();
        judge(self.pool(), &live, asked.size() as u64);
    }

    /// Removes a block from the live ones, if there is one.
    fn pick(&mut self, which: usize) -> Option<Live> {
        let count = self.live.len();
        (count > 0).then(|| self.live.swap_remove(which % count))
    }

    /// Enqueues a check of the block's tag, after its last use.
    fn check_tag(&self, live: &Live, stream: &CudaStream) {
        let Fixture { machine, mismatches, .. } = &self.fixture;
        tag_kernels::check(machine, stream, live.pointer, live.layout.size(), live.tag, mismatches);
    }

    /// Frees on a stream that is ordered after all uses.
    fn free_on(&self, live: &Live, stream: &CudaStream) {
        // SAFETY: allocated with this layout; the callers order `stream` after all uses.
        unsafe { self.pool().deallocate(stream, live.pointer, live.layout) };
    }

    fn free(&mut self, which: usize, elsewhere: Option<usize>) {
        let Some(live) = self.pick(which) else { return };
        let mut stream = live.stream.clone();
        if let Some(other) = elsewhere {
            let other = self.streams[other].clone();
            if order_themselves(&stream, &other) {
                self.check_tag(&live, &stream);
                self.free_on(&live, &other);
                return;
            }
            let ordered = order(&stream, &other);
            if self.attempt(ordered).is_some() {
                stream = other;
            }
        }
        self.check_tag(&live, &stream);
        self.free_on(&live, &stream);
    }

    /// Removes a block after synchronizing the stream of its last use. Returns whether that
    /// succeeded.
    fn pick_synchronized(&mut self, which: usize) -> Option<(Live, bool)> {
        let live = self.pick(which)?;
        self.check_tag(&live, &live.stream);
        let waited = live.stream.synchronize();
        let is_done = self.attempt(waited).is_some();
        Some((live, is_done))
    }

    fn free_sync(&mut self, which: usize) {
        let Some((live, is_done)) = self.pick_synchronized(which) else { return };
        if is_done {
            // SAFETY: allocated with this layout, and all uses have completed.
            unsafe { self.pool().deallocate_sync(live.pointer, live.layout) };
        } else {
            self.free_on(&live, &live.stream);
        }
    }

    /// Frees up to `most` blocks, each on the stream of its last use, without a use of them.
    pub(crate) fn free_unchecked(&mut self, which: usize, most: usize) {
        for _ in 0..most {
            let Some(live) = self.pick(which) else { return };
            self.free_on(&live, &live.stream);
        }
    }

    fn hand_over(&mut self, which: usize) {
        let Some(live) = self.pick(which) else { return };
        self.check_tag(&live, &live.stream);
        let used = live.stream.record_event();
        match self.attempt(used) {
            Some(used) => self.fixture.handed_over().push(HandedOver { live, used }),
            None => self.free_on(&live, &live.stream),
        }
    }

    fn free_handed_over(&mut self, stream: usize) {
        let Some(HandedOver { live, used }) = self.fixture.handed_over().pop() else { return };
        let stream = self.streams[stream].clone();
        let waits = stream.wait(&used);
        if self.attempt(waits).is_some() {
            self.check_tag(&live, &stream);
            self.free_on(&live, &stream);
        } else {
            // Driver calls fail only in programs of one thread, so the block is this thread's own.
            self.free_on(&live, &live.stream);
        }
    }

    /// Frees all blocks, including those handed over.
    pub(crate) fn free_all(&mut self) {
        while !self.live.is_empty() {
            self.free(0, None);
        }
        while !self.fixture.handed_over().is_empty() {
            self.free_handed_over(0);
        }
    }

    /// Frees all blocks, runs all work, and checks that no block was overwritten while in use and
    /// that no block is live.
    pub(crate) fn finish(&mut self) {
        self.free_all();
        self.fixture.finish();
    }
}
