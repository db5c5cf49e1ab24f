//! Programs over a pool or an arena, with tagged blocks on several streams. Driver calls may fail
//! under them.

use std::alloc::Layout;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmm_adaptors::{ArenaMemoryResource, PoolMemoryResource};
use rmm_core::{
    CudaEvent, CudaStream, DevicePtr, Error, Resource, StreamFlags, StreamKind, StreamLifetime,
    SyncResource,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

use crate::program::{Op, STREAMS};
use crate::short::Pool;
use crate::tags::{self, Wrong};

const FIRST_BLOCKING: usize = 3;
const LEGACY: usize = 5;
const PER_THREAD: usize = 6;
const FOREIGN: usize = 7;

/// A stream that a program uses.
#[derive(Clone)]
struct Lane {
    /// What makes a foreign stream exist. It goes first, before the pool is told that the other is
    /// gone.
    _theirs: Option<CudaStream>,
    stream: CudaStream,
}

impl std::ops::Deref for Lane {
    type Target = CudaStream;

    fn deref(&self) -> &CudaStream {
        &self.stream
    }
}

struct Live {
    pointer: DevicePtr,
    layout: Layout,
    tag: u64,
    /// Kept: a block may outlive its place among the streams.
    stream: Lane,
}

/// A block that was left, and the event after its last use.
struct Left {
    live: Live,
    used: CudaEvent,
}

/// What a program allocates from.
pub(crate) trait Allocator: Resource + Clone {
    /// Gives unused memory back, if it ever does; how many bytes.
    fn trim(&self) -> u64 {
        0
    }

    /// Bytes taken from upstream now.
    fn reserved(&self) -> u64;

    /// How often a stream, or the host, was made to wait.
    fn waits(&self) -> u64;

    /// Bytes handed out, and frees of what was not.
    fn books(&self) -> (u64, u64);
}

/// What an allocator's statistics say of waits and books.
macro_rules! as_statistics_tell {
    () => {
        fn waits(&self) -> u64 {
            let statistics = self.statistics();
            statistics.stream_waits + statistics.host_waits
        }

        fn books(&self) -> (u64, u64) {
            let statistics = self.statistics();
            (statistics.live_bytes, statistics.unknown_frees)
        }
    };
}
pub(crate) use as_statistics_tell;

impl<U: SyncResource> Allocator for PoolMemoryResource<U> {
    fn trim(&self) -> u64 {
        PoolMemoryResource::trim(self, 0)
    }

    fn reserved(&self) -> u64 {
        self.reserved_bytes()
    }

    crate::world::as_statistics_tell!();
}

impl<U: SyncResource> Allocator for ArenaMemoryResource<U> {
    fn reserved(&self) -> u64 {
        self.arena_size()
    }

    crate::world::as_statistics_tell!();
}

/// What several programs share: a resource, and the blocks that they leave to each other.
#[derive(Clone)]
pub(crate) struct Common<R = Pool> {
    machine: Machine,
    pool: R,
    /// Bytes of what a step calls a granule.
    granule: usize,
    left: Arc<Mutex<Vec<Left>>>,
    wrong: Wrong,
}

/// Looks at a refusal: the resource, the live blocks by address with their bytes, and the bytes
/// that were asked for.
type Judge<R> = Box<dyn Fn(&R, &[(u64, u64)], u64)>;

/// A program under way.
pub(crate) struct World<R = Pool> {
    common: Common<R>,
    judge: Option<Judge<R>>,
    streams: Vec<Lane>,
    live: Vec<Live>,
    /// Where the blocks were, in the order of the requests; nowhere where nothing was had.
    pub(crate) addresses: Vec<Option<DevicePtr>>,
    next_tag: u64,
    /// Driver calls of the program's own that failed.
    pub(crate) refused: u64,
    /// Requests that the pool had nothing for.
    pub(crate) unserved: u64,
}

fn new_stream() -> Result<CudaStream, Error> {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
}

/// The stream at a place among the streams.
fn stream_at(place: usize) -> Result<Lane, Error> {
    let own = |stream| Lane { _theirs: None, stream };
    match place % STREAMS {
        LEGACY => Ok(own(CudaStream::legacy())),
        PER_THREAD => Ok(own(CudaStream::per_thread())),
        FOREIGN => foreign_stream(),
        FIRST_BLOCKING.. => CudaStream::new().map(own),
        _ => new_stream().map(own),
    }
}

/// A stream whose owner destroys it without a word to the pool.
fn foreign_stream() -> Result<Lane, Error> {
    let theirs = CudaStream::new()?;
    // SAFETY: the stream exists for as long as blocks are used or freed on it: each keeps the lane.
    let stream = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::Unknown) }?;
    Ok(Lane { _theirs: Some(theirs), stream })
}

/// Whether work on one is ordered after work on the other without anybody's doing.
fn order_themselves(first: &CudaStream, second: &CudaStream) -> bool {
    let is_legacy = |stream: &CudaStream| stream.kind() == StreamKind::Legacy;
    (is_legacy(first) && !second.is_non_blocking())
        || (is_legacy(second) && !first.is_non_blocking())
}

/// Has `second` wait for all that `first` has to do so far.
pub(crate) fn order(first: &CudaStream, second: &CudaStream) -> Result<(), Error> {
    let event = CudaEvent::new()?;
    event.record(first)?;
    second.wait(&event)
}

impl Common {
    /// A pool of `limit` bytes on a machine that the thread has entered.
    pub(crate) fn new(machine: &Machine, limit: usize) -> Self {
        let builder = Pool::builder(CudaMemoryResource::new());
        Self::over(machine, builder.maximum_size(limit).build().expect("a pool"))
    }
}

impl<R: Allocator> Common<R> {
    /// Over a resource that was made on a machine that the thread has entered.
    pub(crate) fn over(machine: &Machine, pool: R) -> Self {
        Self::in_granules(machine, pool, 256)
    }

    /// Over a resource whose blocks are multiples of `granule` bytes.
    pub(crate) fn in_granules(machine: &Machine, pool: R, granule: usize) -> Self {
        let (left, wrong) = (Arc::default(), Wrong::default());
        Self { machine: machine.clone(), pool, granule, left, wrong }
    }

    fn left(&self) -> MutexGuard<'_, Vec<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pool, or what is there in its place.
    pub(crate) fn pool(&self) -> &R {
        &self.pool
    }

    /// Lets the device finish, once every program has freed its blocks, and checks that no block
    /// was shared and the books are right.
    pub(crate) fn finish(&self) {
        self.machine.run_all();
        assert_eq!(self.wrong.count(), 0, "a block was overwritten while it was in use");
        assert_eq!(self.pool.books(), (0, 0), "blocks are left, or others were freed");
    }
}

impl World {
    /// A program with a pool of its own of `limit` bytes, on a machine that the thread has entered.
    pub(crate) fn new(machine: &Machine, limit: usize) -> Self {
        Self::sharing(Common::new(machine, limit), 0)
    }
}

impl<R: Allocator> World<R> {
    /// The program of a thread that has entered the machine. No two that share anything have the
    /// same number.
    pub(crate) fn sharing(common: Common<R>, number: u64) -> Self {
        Self::on_streams(common, number, STREAMS)
    }

    /// As [`sharing`](Self::sharing), on so many streams, whose kinds come again and again.
    pub(crate) fn on_streams(common: Common<R>, number: u64, streams: usize) -> Self {
        Self {
            common,
            judge: None,
            streams: (0..streams).map(|place| stream_at(place).expect("a stream")).collect(),
            live: Vec::new(),
            addresses: Vec::new(),
            next_tag: number << 48 | 1,
            refused: 0,
            unserved: 0,
        }
    }

    /// Has each request that is refused looked at. Nobody else may have blocks of the resource.
    pub(crate) fn judge_refusals(&mut self, judge: impl Fn(&R, &[(u64, u64)], u64) + 'static) {
        self.judge = Some(Box::new(judge));
    }

    /// The pool, or what is there in its place.
    pub(crate) fn pool(&self) -> &R {
        &self.common.pool
    }

    /// Makes one step. Where the driver refuses what the program itself asks for, the step is left
    /// out.
    pub(crate) fn step(&mut self, op: &Op) {
        match *op {
            Op::Allocate { stream, granules } => self.allocate(stream, granules, false),
            Op::AllocateSync { stream, granules } => self.allocate(stream, granules, true),
            Op::Free { which } => self.free(which, None),
            Op::FreeElsewhere { which, stream } => self.free(which, Some(stream)),
            Op::FreeAfterWaiting { which, stream } => {
                let place = self.after_waiting(which);
                if let Some((live, is_done)) = place {
                    let stream =
                        if is_done { self.streams[stream].clone() } else { live.stream.clone() };
                    self.give_back(&live, &stream);
                }
            }
            Op::FreeSync { which } => self.free_sync(which),
            Op::Leave { which } => self.leave(which),
            Op::Collect { stream } => self.collect(stream),
            Op::Replace { stream } => {
                if let Some(new) = self.asked(stream_at(stream)) {
                    self.streams[stream] = new;
                }
            }
            Op::Synchronize { stream } => {
                let done = self.streams[stream].synchronize();
                self.asked(done);
            }
            Op::Wait { stream, other } => {
                let ordered = order(&self.streams[other], &self.streams[stream]);
                self.asked(ordered);
            }
            Op::Trim => {
                self.pool().trim();
            }
        }
    }

    fn asked<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        self.refused += u64::from(result.is_err());
        result.ok()
    }

    fn allocate(&mut self, stream: usize, granules: usize, sync: bool) {
        let stream = self.streams[stream].clone();
        let layout =
            Layout::from_size_align(granules * self.common.granule, 256).expect("a small size");
        let allocated = if sync {
            self.pool().allocate_sync(layout)
        } else {
            self.pool().allocate(&*stream, layout)
        };
        self.addresses.push(allocated.as_ref().ok().copied());
        let pointer = match allocated {
            Ok(pointer) => pointer,
            Err(error) => {
                self.unserved += 1;
                self.judge(&error, layout);
                return;
            }
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        tags::write(&self.common.machine, &stream, pointer, layout.size(), tag);
        self.live.push(Live { pointer, layout, tag, stream });
    }

    fn judge(&self, error: &Error, asked: Layout) {
        let Some(judge) = &self.judge else { return };
        assert!(error.is_out_of_memory(), "{error}");
        let left = self.common.left();
        let live = self.live.iter().chain(left.iter().map(|left| &left.live));
        let mut live: Vec<(u64, u64)> =
            live.map(|live| (live.pointer.0, live.layout.size() as u64)).collect();
        live.sort_unstable();
        judge(self.pool(), &live, asked.size() as u64);
    }

    /// Takes a block out, if there is one.
    fn pick(&mut self, which: usize) -> Option<Live> {
        let count = self.live.len();
        (count > 0).then(|| self.live.swap_remove(which % count))
    }

    /// Enqueues a look at the block, after its last use.
    fn look(&self, live: &Live, stream: &CudaStream) {
        let Common { machine, wrong, .. } = &self.common;
        tags::check(machine, stream, live.pointer, live.layout.size(), live.tag, wrong);
    }

    /// Frees on a stream that comes after all uses.
    fn give_back(&self, live: &Live, stream: &CudaStream) {
        // SAFETY: allocated with this layout; what is enqueued on the stream from now on comes
        // after all uses, as the callers see to.
        unsafe { self.pool().deallocate(stream, live.pointer, live.layout) };
    }

    fn free(&mut self, which: usize, elsewhere: Option<usize>) {
        let Some(live) = self.pick(which) else { return };
        let mut stream = live.stream.clone();
        if let Some(other) = elsewhere {
            let other = self.streams[other].clone();
            if order_themselves(&stream, &other) {
                self.look(&live, &stream);
                self.give_back(&live, &other);
                return;
            }
            let ordered = order(&stream, &other);
            if self.asked(ordered).is_some() {
                stream = other;
            }
        }
        self.look(&live, &stream);
        self.give_back(&live, &stream);
    }

    /// Takes a block out whose last use the host has waited for; or has tried to.
    fn after_waiting(&mut self, which: usize) -> Option<(Live, bool)> {
        let live = self.pick(which)?;
        self.look(&live, &live.stream);
        let waited = live.stream.synchronize();
        let is_done = self.asked(waited).is_some();
        Some((live, is_done))
    }

    fn free_sync(&mut self, which: usize) {
        let Some((live, is_done)) = self.after_waiting(which) else { return };
        if is_done {
            // SAFETY: allocated with this layout, and all uses have completed.
            unsafe { self.pool().deallocate_sync(live.pointer, live.layout) };
        } else {
            self.give_back(&live, &live.stream);
        }
    }

    fn leave(&mut self, which: usize) {
        let Some(live) = self.pick(which) else { return };
        self.look(&live, &live.stream);
        let used = live.stream.record_event();
        match self.asked(used) {
            Some(used) => self.common.left().push(Left { live, used }),
            None => self.give_back(&live, &live.stream),
        }
    }

    fn collect(&mut self, stream: usize) {
        let Some(Left { live, used }) = self.common.left().pop() else { return };
        let stream = self.streams[stream].clone();
        let waits = stream.wait(&used);
        if self.asked(waits).is_some() {
            self.look(&live, &stream);
            self.give_back(&live, &stream);
        } else {
            // Nobody refuses anything where the block may be another thread's.
            self.give_back(&live, &live.stream);
        }
    }

    /// Frees all blocks, and those that were left.
    pub(crate) fn free_all(&mut self) {
        while !self.live.is_empty() {
            self.free(0, None);
        }
        while !self.common.left().is_empty() {
            self.collect(0);
        }
    }

    /// Frees everything, lets the device finish, and checks that no block was shared and the books
    /// are right.
    pub(crate) fn finish(&mut self) {
        self.free_all();
        self.common.finish();
    }
}
