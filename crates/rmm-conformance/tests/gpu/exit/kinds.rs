//! Every suballocator by its name.

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource,
    PoolPreset,
};
use rmm_conformance::{Failure, ResourceChoice};
use rmm_core::{AnyResource, Error};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};

const DEVICE: CudaMemoryResource = CudaMemoryResource::new();
const MIB: usize = 1 << 20;

/// A suballocator: its name, what it is tested with, and how to make one.
pub(super) type Kind = (&'static str, ResourceChoice, fn() -> Result<AnyResource, Error>);

pub(super) const KINDS: [Kind; 7] = [
    ("pool", ResourceChoice::Pool, || {
        Ok(AnyResource::new(PoolMemoryResource::builder(DEVICE).initial_size(MIB).build()?))
    }),
    ("pool-compact", ResourceChoice::Pool, || {
        let builder = PoolMemoryResource::builder(DEVICE).preset(PoolPreset::Compact);
        Ok(AnyResource::new(builder.build()?))
    }),
    ("pool-virtual", ResourceChoice::PoolVirtual, || {
        let upstream = VirtualMemoryResource::new()?;
        Ok(AnyResource::new(PoolMemoryResource::builder(upstream).build()?))
    }),
    ("pool-async", ResourceChoice::CudaAsync, || {
        let upstream = CudaAsyncMemoryResource::new()?;
        Ok(AnyResource::new(PoolMemoryResource::builder(upstream).build()?))
    }),
    ("arena", ResourceChoice::Arena, || {
        Ok(AnyResource::new(ArenaMemoryResource::builder(DEVICE).arena_size(128 * MIB).build()?))
    }),
    ("binning", ResourceChoice::Binning, || {
        let pool = PoolMemoryResource::builder(DEVICE).build()?;
        let binning = BinningMemoryResource::builder(pool).bins_of_powers([10, 12])?;
        Ok(AnyResource::new(binning.build()))
    }),
    ("fixed-size", ResourceChoice::Binning, || {
        let blocks = FixedSizeMemoryResource::builder(DEVICE).block_size(4 * MIB).blocks(4);
        Ok(AnyResource::new(blocks.build()?))
    }),
];

fn find(name: &str) -> Kind {
    let found = KINDS.into_iter().find(|&(known, ..)| known == name);
    found.unwrap_or_else(|| panic!("{name} is no suballocator"))
}

/// What the suballocator of this name is tested with.
pub(super) fn choice(name: &str) -> ResourceChoice {
    find(name).1
}

/// A new suballocator of this name.
pub(super) fn make(name: &str) -> Result<AnyResource, Failure> {
    Ok(find(name).2()?)
}
