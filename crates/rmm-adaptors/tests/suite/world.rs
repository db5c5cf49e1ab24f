//! Random programs over a pool, with tagged blocks on several streams. Driver calls may fail under them.

use std::alloc::Layout;

use proptest::prelude::*;
use rmm_adaptors::PoolMemoryResource;
use rmm_core::{
    CudaEvent, CudaStream, DevicePtr, Error, Resource, StreamFlags, StreamKind, SyncResource,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

use crate::tags::{self, Wrong};

/// Streams that a program uses: non-blocking ones, blocking ones, and the two default streams.
pub(crate) const STREAMS: usize = 7;
const FIRST_BLOCKING: usize = 3;
const LEGACY: usize = 5;
const PER_THREAD: usize = 6;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Allocate {
        stream: usize,
        granules: usize,
    },
    /// Allocates for anybody, writes on one stream.
    AllocateSync {
        stream: usize,
        granules: usize,
    },
    Free {
        which: usize,
    },
    /// Frees on another stream than that of the last use, which waits first; unless the two order themselves, as the legacy
    /// default stream and blocking streams do.
    FreeElsewhere {
        which: usize,
        stream: usize,
    },
    Replace {
        stream: usize,
    },
    Synchronize {
        stream: usize,
    },
    Wait {
        stream: usize,
        other: usize,
    },
    Trim,
}

/// Programs of up to `most` steps.
pub(crate) fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let (stream, which) = (0..STREAMS, any::<usize>());
    // Some sizes come often, so that blocks are passed on as they are.
    let granules = prop_oneof![Just(8usize), Just(64), 1usize..400];
    let op = prop_oneof![
        8 => (stream.clone(), granules.clone()).prop_map(|(stream, granules)| Op::Allocate { stream, granules }),
        1 => (stream.clone(), granules).prop_map(|(stream, granules)| Op::AllocateSync { stream, granules }),
        7 => which.prop_map(|which| Op::Free { which }),
        2 => (which, stream.clone()).prop_map(|(which, stream)| Op::FreeElsewhere { which, stream }),
        1 => stream.clone().prop_map(|stream| Op::Replace { stream }),
        1 => stream.clone().prop_map(|stream| Op::Synchronize { stream }),
        1 => (stream.clone(), stream).prop_map(|(stream, other)| Op::Wait { stream, other }),
        1 => Just(Op::Trim),
    ];
    proptest::collection::vec(op, 1..most)
}

struct Live {
    pointer: DevicePtr,
    layout: Layout,
    tag: u64,
    /// Kept: a block may outlive its place among the streams.
    stream: CudaStream,
}

/// A program under way.
pub(crate) struct World {
    machine: Machine,
    pool: PoolMemoryResource<CudaMemoryResource>,
    streams: Vec<CudaStream>,
    live: Vec<Live>,
    next_tag: u64,
    wrong: Wrong,
    /// Driver calls of the program's own that failed.
    pub(crate) refused: u64,
}

pub(crate) fn new_stream() -> Result<CudaStream, Error> {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
}

/// The stream at a place among the streams.
fn stream_at(place: usize) -> Result<CudaStream, Error> {
    match place {
        LEGACY => Ok(CudaStream::legacy()),
        PER_THREAD => Ok(CudaStream::per_thread()),
        FIRST_BLOCKING.. => CudaStream::new(),
        _ => new_stream(),
    }
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
    event.record(first.as_ref())?;
    second.as_ref().wait(&event)
}

impl World {
    /// A pool of `limit` bytes on a machine that the thread has entered.
    pub(crate) fn new(machine: &Machine, limit: usize) -> Self {
        let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
        Self {
            machine: machine.clone(),
            pool: builder.maximum_size(limit).build().expect("a pool"),
            streams: (0..STREAMS).map(|place| stream_at(place).expect("a stream")).collect(),
            live: Vec::new(),
            next_tag: 1,
            wrong: Wrong::default(),
            refused: 0,
        }
    }

    /// The pool.
    pub(crate) fn pool(&self) -> &PoolMemoryResource<CudaMemoryResource> {
        &self.pool
    }

    /// Makes one step. Where the driver refuses what the program itself asks for, the step is left out.
    pub(crate) fn step(&mut self, op: &Op) {
        match *op {
            Op::Allocate { stream, granules } => self.allocate(stream, granules, false),
            Op::AllocateSync { stream, granules } => self.allocate(stream, granules, true),
            Op::Free { which } => self.free(which, None),
            Op::FreeElsewhere { which, stream } => self.free(which, Some(stream)),
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
                self.pool.trim(0);
            }
        }
    }

    fn asked<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        self.refused += u64::from(result.is_err());
        result.ok()
    }

    fn allocate(&mut self, stream: usize, granules: usize, sync: bool) {
        let stream = self.streams[stream].clone();
        let layout = Layout::from_size_align(granules * 256, 256).expect("a small size");
        let allocated = if sync {
            self.pool.allocate_sync(layout)
        } else {
            self.pool.allocate(stream.as_ref(), layout)
        };
        let Ok(pointer) = allocated else { return };
        let tag = self.next_tag;
        self.next_tag += 1;
        tags::write(&self.machine, &stream, pointer, layout.size(), tag);
        self.live.push(Live { pointer, layout, tag, stream });
    }

    fn free(&mut self, which: usize, elsewhere: Option<usize>) {
        if self.live.is_empty() {
            return;
        }
        let Live { pointer, layout, tag, mut stream } =
            self.live.swap_remove(which % self.live.len());
        if let Some(other) = elsewhere {
            let other = self.streams[other].clone();
            if order_themselves(&stream, &other) {
                tags::check(&self.machine, &stream, pointer, layout.size(), tag, &self.wrong);
                // SAFETY: allocated with this layout; what is enqueued on `other` from now on comes after all uses, on `stream`.
                unsafe { self.pool.deallocate(other.as_ref(), pointer, layout) };
                return;
            }
            let ordered = order(&stream, &other);
            if self.asked(ordered).is_some() {
                stream = other;
            }
        }
        tags::check(&self.machine, &stream, pointer, layout.size(), tag, &self.wrong);
        // SAFETY: allocated with this layout; all uses are on this stream or ordered before by the event.
        unsafe { self.pool.deallocate(stream.as_ref(), pointer, layout) };
    }

    /// Frees everything, lets the device finish, and checks that no block was shared and the books are right.
    pub(crate) fn finish(&mut self) {
        while !self.live.is_empty() {
            self.free(0, None);
        }
        self.machine.run_all();
        assert_eq!(self.wrong.count(), 0, "a block was overwritten while it was in use");
        assert_eq!(self.pool.statistics().live_bytes, 0);
        assert_eq!(self.pool.statistics().unknown_frees, 0);
    }
}
