//! Tests of pools with many free blocks: one call reclaims a bounded number of them, and none is
//! lost.

use crate::support::{free, layout, stream};
use rmm_adaptors::PoolMemoryResource;
use rmm_core::{Device, Resource};
use rmm_resources::CudaMemoryResource;

const BYTES: usize = 256;
const BLOCKS: usize = 20_000;

#[test]
fn many_free_blocks_of_two_streams_coalesce() {
    let machine = rmm_sim::enter();
    let size = 2 * BLOCKS * BYTES;
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let builder = builder.initial_size(size as u64).maximum_size(size as u64).check_frees(false);
    let pool = builder.build().expect("a pool");
    let streams = [stream(), stream()];
    let of = |index: usize| &streams[index % 2];
    let blocks: Vec<_> = (0..BLOCKS)
        .map(|index| pool.allocate(of(index), layout(BYTES)).expect("a block"))
        .collect();
    for (index, &block) in blocks.iter().enumerate() {
        free(&pool, of(index), block, BYTES);
    }
    let third = stream();
    let whole = pool.allocate(&third, layout(size)).expect("all of it is free");
    free(&pool, &third, whole, size);
    Device::synchronize_current().expect("a wait");
    assert_eq!(pool.trim(0), size as u64);
    drop(pool);
    machine.assert_no_violations();
}
