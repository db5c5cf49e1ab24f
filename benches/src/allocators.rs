//! The allocators that `protocol` times.

#![forbid(unsafe_code)]

use std::fmt;

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource,
    PoolPreset, PoolStatistics,
};
use rmm_core::{AnyResource, Error, Resource};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};

use crate::adaptors::Pool;
use crate::setup::POOL_BYTES;

/// What a pool starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// 16 GiB, so that it does not grow while it is timed.
    Full,
    /// Nothing: it grows.
    Empty,
}

impl Start {
    fn bytes(self) -> usize {
        match self {
            Self::Full => POOL_BYTES,
            Self::Empty => 0,
        }
    }
}

/// What work an allocator can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serves {
    /// All of it.
    Everything,
    /// Blocks of one size, one at a time.
    Pairs,
    /// Shortened lists, because a call takes so long.
    Little,
}

/// An allocator by its name on the command line.
#[derive(Debug)]
pub struct Kind {
    /// The name, which the rows have too.
    pub name: &'static str,
    /// What it can be asked for.
    pub serves: Serves,
    /// Makes one on the current device.
    pub make: fn(Start) -> Result<Allocator, Error>,
}

/// Every allocator, in the order in which they are timed. A new one is a line here and a function
/// below.
pub const KINDS: &[Kind] = &[
    Kind { name: "pool", serves: Serves::Everything, make: pool },
    Kind { name: "pool-virtual", serves: Serves::Everything, make: pool_virtual },
    Kind { name: "pool-compact", serves: Serves::Everything, make: pool_compact },
    Kind { name: "arena", serves: Serves::Everything, make: |_| arena() },
    Kind { name: "fixed-size", serves: Serves::Pairs, make: fixed_size },
    Kind { name: "binning", serves: Serves::Everything, make: binning },
    Kind { name: "cuda-async", serves: Serves::Everything, make: cuda_async },
    Kind { name: "cuda", serves: Serves::Little, make: |_| Ok(cuda()) },
];

/// What an allocator tells of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// The most bytes taken from the driver at once.
    Reserved(u64),
    /// All that a pool counts.
    Pool(PoolStatistics),
}

impl Told {
    /// The most bytes taken from the driver at once, if it tells.
    pub fn peak_reserved(self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Reserved(bytes) => Some(bytes),
            Self::Pool(statistics) => Some(statistics.peak_reserved_bytes),
        }
    }

    /// The pool's counters, if it is one.
    pub fn pool(self) -> Option<PoolStatistics> {
        match self {
            Self::Pool(statistics) => Some(statistics),
            _ => None,
        }
    }
}

/// A resource, called through the type that forgets which, as a program's parts call it.
pub struct Allocator {
    /// The resource.
    pub resource: AnyResource,
    tell: Box<dyn Fn() -> Result<Told, Error>>,
    trim: Option<Box<dyn Fn()>>,
}

impl Allocator {
    fn new<R>(resource: &R, tell: impl Fn(&R) -> Result<Told, Error> + 'static) -> Self
    where
        R: Resource
            + rmm_core::HasProperty<rmm_core::DeviceAccessible>
            + Clone
            + PartialEq
            + 'static,
    {
        let told_by = resource.clone();
        Self {
            resource: AnyResource::new(resource.clone()),
            tell: Box::new(move || tell(&told_by)),
            trim: None,
        }
    }

    /// Has [`trims`](Self::trims) call this.
    fn with_trim(self, trim: impl Fn() + 'static) -> Self {
        Self { trim: Some(Box::new(trim)), ..self }
    }

    /// Gives back to the driver what is unused, if the allocator can be asked to; says whether it
    /// can.
    pub fn trims(&self) -> bool {
        self.trim.as_ref().map(|trim| trim()).is_some()
    }

    /// What it tells of itself now.
    ///
    /// # Errors
    /// If the driver refuses to tell.
    pub fn told(&self) -> Result<Told, Error> {
        (self.tell)()
    }
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocator").field("resource", &self.resource).finish_non_exhaustive()
    }
}

/// The pool over the driver's plain allocations.
pub(crate) fn pool_of(start: Start) -> Result<Pool, Error> {
    PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(start.bytes()).build()
}

fn pool(start: Start) -> Result<Allocator, Error> {
    let pool = pool_of(start)?;
    let allocator = Allocator::new(&pool, |pool| Ok(Told::Pool(pool.statistics())));
    Ok(allocator.with_trim(move || {
        pool.trim(0);
    }))
}

fn pool_virtual(start: Start) -> Result<Allocator, Error> {
    extending(start, PoolPreset::Throughput)
}

fn pool_compact(start: Start) -> Result<Allocator, Error> {
    extending(start, PoolPreset::Compact)
}

/// A pool that extends its memory where it ends.
fn extending(start: Start, preset: PoolPreset) -> Result<Allocator, Error> {
    let builder = PoolMemoryResource::builder(VirtualMemoryResource::new()?).preset(preset);
    let pool = builder.initial_size(start.bytes()).build()?;
    let allocator = Allocator::new(&pool, |pool| Ok(Told::Pool(pool.statistics())));
    Ok(allocator.with_trim(move || {
        pool.trim(0);
    }))
}

/// An arena's size does not change, so it never starts with nothing.
fn arena() -> Result<Allocator, Error> {
    let builder = ArenaMemoryResource::builder(CudaMemoryResource::new());
    let arena = builder.arena_size(POOL_BYTES).build()?;
    Ok(Allocator::new(&arena, |_| Ok(Told::Nothing)))
}

fn fixed_size(_: Start) -> Result<Allocator, Error> {
    let blocks = FixedSizeMemoryResource::builder(CudaMemoryResource::new());
    let blocks = blocks.block_size(1 << 20).blocks(4096).build()?;
    Ok(Allocator::new(&blocks, |blocks| Ok(Told::Pool(blocks.statistics()))))
}

fn binning(start: Start) -> Result<Allocator, Error> {
    let pool = pool_of(start)?;
    let binning = BinningMemoryResource::builder(pool).bins_of_powers(18..=22)?.build();
    Ok(Allocator::new(&binning, |binning| {
        // The bins' blocks come from the pool.
        Ok(Told::Reserved(binning.upstream().statistics().peak_reserved_bytes))
    }))
}

fn cuda_async(start: Start) -> Result<Allocator, Error> {
    let resource = CudaAsyncMemoryResource::builder().initial_size(start.bytes()).build()?;
    Ok(Allocator::new(&resource, |resource| resource.peak_reserved_bytes().map(Told::Reserved)))
}

fn cuda() -> Allocator {
    Allocator::new(&CudaMemoryResource::new(), |_| Ok(Told::Nothing))
}
