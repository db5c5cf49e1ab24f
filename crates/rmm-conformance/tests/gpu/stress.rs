//! Fill and check under random stalls, over every suballocator: eight threads on shared streams
//! (created, adopted, and the legacy one) and on streams of their own allocate blocks of 256 bytes
//! to 4 MiB, fill each with words of its own, let streams stand still, hand blocks to other streams
//! and threads, and have the device count the words that are wrong before each free.
//!
//! A plain run is one short round in each place. With `RMM_STRESS_SECONDS` each test goes on for
//! that long, in rounds whose lengths, limits and steps are drawn from a seed, which is printed:
//! `RMM_STRESS_SEED`, and one more for each further round. How the threads meet is not drawn, so a
//! round that failed may have to be run more than once to fail again.

#[path = "stress/found.rs"]
mod found;
#[path = "stress/lanes.rs"]
mod lanes;
#[path = "stress/rounds.rs"]
mod rounds;
#[path = "stress/watch.rs"]
mod watch;
#[path = "stress/worker.rs"]
mod worker;

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource,
    PoolPreset,
};
use rmm_core::Error;
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};

use self::rounds::hold;
use crate::merging::{Bug, Merging};

const DEVICE: CudaMemoryResource = CudaMemoryResource::new();
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// So much more is needed where small blocks take as much as the largest.
const WASTE: u64 = 6;

fn trim(pool: &PoolMemoryResource) {
    pool.trim(0);
}

/// A pool on device memory.
fn pool(preset: PoolPreset, limit: u64) -> Result<PoolMemoryResource, Error> {
    PoolMemoryResource::builder(DEVICE).preset(preset).maximum_size(limit).build()
}

#[test]
fn pool_for_throughput() {
    hold("pool", |limit| pool(PoolPreset::Throughput, limit), trim);
}

#[test]
fn pool_that_is_compact() {
    hold("pool", |limit| pool(PoolPreset::Compact, limit), trim);
}

#[test]
fn pool_that_is_deterministic() {
    hold("pool", |limit| pool(PoolPreset::Deterministic, limit), trim);
}

#[test]
fn pool_that_grows_sooner_than_it_waits() {
    let make = |limit| {
        let builder = PoolMemoryResource::builder(DEVICE).soft_maximum_size(limit / 2 / MIB * MIB);
        builder.maximum_size(limit).build()
    };
    hold("pool", make, trim);
}

#[test]
fn pool_over_virtual_memory() {
    let make = |limit| {
        let upstream = VirtualMemoryResource::new()?;
        PoolMemoryResource::builder(upstream).maximum_size(limit).build()
    };
    hold("pool-virtual", make, trim);
}

#[test]
fn pool_over_the_driver_s_pool() {
    let make = |limit| {
        let upstream = CudaAsyncMemoryResource::new()?;
        PoolMemoryResource::builder(upstream).maximum_size(limit).build()
    };
    hold("cuda-async", make, trim);
}

#[test]
fn arena() {
    let make = |limit| ArenaMemoryResource::builder(DEVICE).arena_size(limit).build();
    hold("arena", make, |_| ());
}

/// Blocks of one size.
fn blocks(bytes: u64, limit: u64) -> Result<FixedSizeMemoryResource, Error> {
    let builder = FixedSizeMemoryResource::builder(DEVICE).block_size(bytes);
    let count = usize::try_from(limit / 2 / bytes).expect("few blocks");
    builder.blocks(count.max(1)).maximum_size(limit).build()
}

#[test]
fn fixed_size() {
    hold(
        "binning",
        |limit| blocks(4 * MIB, WASTE * limit),
        |blocks| {
            blocks.trim(0);
        },
    );
}

#[test]
fn binning() {
    let make = |limit| {
        let bins = BinningMemoryResource::builder(pool(PoolPreset::Throughput, limit)?);
        let bins = bins.bin_of(4 * KIB, blocks(4 * KIB, 64 * KIB)?)?;
        Ok(bins.bin_of(256 * KIB, blocks(256 * KIB, 4 * MIB)?)?.build())
    };
    hold("binning", make, |bins| {
        bins.upstream().trim(0);
    });
}

/// The allocator that shows what the stress finds, without its bug: what is found is the bug.
#[test]
fn lists_that_record_their_merges() {
    let make = |limit| {
        let blocks = usize::try_from(WASTE * limit / (4 * MIB)).expect("few blocks");
        Merging::new(Bug::Fixed, 4 << 20, blocks)
    };
    hold("pool", make, |_| ());
}
