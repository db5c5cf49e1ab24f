//! RMM #2490 on whichever driver is set: a first stream frees blocks that it is still to write to,
//! a second one takes more than any one of them, a third takes what is left. An allocator that
//! keeps the order by an event for each list hands the third memory that the first has yet to write
//! to, unless the second records its event anew when it takes the blocks over.
//!
//! The first stream stands still for a quarter of a second meanwhile, so that its writes come last
//! if nothing keeps them from it.

use rmm_adaptors::{ArenaMemoryResource, FixedSizeMemoryResource, PoolMemoryResource, PoolPreset};
use rmm_conformance::{
    CheckResult, CheckedBlock, DeviceCounter, DeviceHandle, Environment, Kernels, Place, ensure,
};
use rmm_core::{CudaStream, Device, Error, Resource, StreamFlags};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::ViolationKind;

use crate::merging::{Bug, Merging};
use crate::run::in_places_with;

/// Words of the blocks of the first stream: 2 MiB, as pieces of virtual memory are.
const WORDS: u32 = 512 << 10;
const BYTES: usize = 4 * WORDS as usize;

/// Cycles for which the first stream stands still: at least a quarter of a second.
const LONG: u64 = 500_000_000;

/// How often the bug is looked for: another program may keep this one from the processor while the
/// first stream stands still.
const ATTEMPTS: usize = 5;

const DEVICE: CudaMemoryResource = CudaMemoryResource::new();

fn stream() -> Result<CudaStream, Error> {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)
}

/// Blocks of the stream, which it will not write to for a long time yet.
fn given<'a, R: Resource, const COUNT: usize>(
    resource: &'a R,
    kernels: &'a Kernels,
    stream: &CudaStream,
) -> Result<[CheckedBlock<'a, R>; COUNT], rmm_conformance::Failure> {
    let mut blocks = Vec::new();
    for _ in 0..COUNT {
        blocks.push(CheckedBlock::allocate(resource, kernels, stream, WORDS)?);
    }
    kernels.stall(stream.as_stream_ref(), LONG)?;
    for block in &blocks {
        block.fill(0xa000_0000, 0)?;
    }
    blocks.try_into().map_err(|_| rmm_conformance::Failure::new("another number of blocks"))
}

/// Fills the block on its stream, and checks it when all streams have done what they had to do.
fn stays_intact<R: Resource>(block: &CheckedBlock<'_, R>, errors: &DeviceCounter) -> CheckResult {
    block.fill(0xc000_0000, 0)?;
    // Work that nothing keeps from it is done now.
    block.stream().synchronize()?;
    Device::synchronize_current()?;
    block.check(0xc000_0000, errors)?;
    errors.expect_none(block.stream(), "memory was written to by the first stream")
}

/// The resource has room for two blocks, and one and a half in one piece.
fn what_is_left_of_merged_blocks_keeps_order<R: Resource>(
    kernels: &Kernels,
    resource: &R,
) -> CheckResult {
    let (first, second, third) = (stream()?, stream()?, stream()?);
    let errors = DeviceCounter::new(&third)?;
    drop(given::<_, 2>(resource, kernels, &first)?);
    let merged = CheckedBlock::allocate(resource, kernels, &second, WORDS / 2 * 3)?;
    merged.fill(0xb000_0000, 0)?;
    let left = CheckedBlock::allocate(resource, kernels, &third, WORDS / 2)?;
    stays_intact(&left, &errors)?;
    merged.check(0xb000_0000, &errors)?;
    errors.expect_none(&second, "the merged block was written to by the first stream")
}

/// The resource has room for three blocks, and for nothing else.
fn a_refusal_after_merging_keeps_order<R: Resource>(
    kernels: &Kernels,
    resource: &R,
) -> CheckResult {
    let (first, second, third) = (stream()?, stream()?, stream()?);
    let errors = DeviceCounter::new(&third)?;
    let [_live, one, other] = given::<_, 3>(resource, kernels, &first)?;
    drop((one, other));
    let refused = CheckedBlock::allocate(resource, kernels, &second, WORDS / 2 * 5).err();
    ensure(refused.as_ref().is_some_and(Error::is_out_of_memory), || {
        format!("there is not enough for it, but: {refused:?}")
    })?;
    let taken = CheckedBlock::allocate(resource, kernels, &third, WORDS)?;
    stays_intact(&taken, &errors)
}

/// Runs the script on the little allocator.
fn on_lists(environment: &Environment, bug: Bug) -> CheckResult {
    let kernels = Kernels::load(environment.handle())?;
    let lists = Merging::new(bug, BYTES / 2 * 3, 2)?;
    what_is_left_of_merged_blocks_keeps_order(&kernels, &lists)
}

/// Asserts that the contents of memory show the bug.
fn contents_show(place: Place) {
    let mut outcomes = (0..ATTEMPTS).map(|_| {
        // On the software device too, what is seen is only what a GPU would show.
        on_lists(&Environment::open_unwatched(place)?, Bug::Present)
    });
    let failure = outcomes.find_map(CheckResult::err).expect("the bug shows in what memory holds");
    assert!(failure.to_string().contains("words are wrong"), "{failure}");
}

#[test]
fn a_merge_without_record_is_found() {
    for place in Place::selected().unwrap_or_else(|failure| panic!("{failure}")) {
        if place != Place::Seeded {
            contents_show(place);
        }
        let environment = Environment::open(place).unwrap_or_else(|failure| panic!("{failure}"));
        let DeviceHandle::Software(machine) = environment.handle().clone() else { continue };
        // The bytes may be right.
        let _ignored = on_lists(&environment, Bug::Present);
        let found = machine.violations();
        assert!(
            found.iter().any(|violation| violation.kind == ViolationKind::AllocatedInUse),
            "{place:?}: {found:?}"
        );
    }
}

#[test]
fn a_merge_with_record_keeps_order() {
    crate::run::in_every_environment(|environment| on_lists(environment, Bug::Fixed));
}

/// Runs both scripts over resources that `make` makes, with room for two and for three blocks.
fn keeps_order<R: Resource>(resource: &str, make: impl Fn(u64) -> Result<R, Error>) {
    in_places_with(resource, |environment| {
        let kernels = Kernels::load(environment.handle())?;
        what_is_left_of_merged_blocks_keeps_order(&kernels, &make(2)?)?;
        a_refusal_after_merging_keeps_order(&kernels, &make(3)?)
    });
}

#[test]
fn pools_keep_order() {
    for preset in [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic] {
        keeps_order("pool", |blocks| {
            let builder = PoolMemoryResource::builder(DEVICE).preset(preset);
            builder.initial_size(blocks * BYTES as u64).maximum_size(blocks * BYTES as u64).build()
        });
    }
}

#[test]
fn a_pool_over_the_driver_s_pool_keeps_order() {
    keeps_order("cuda-async", |blocks| {
        let upstream = CudaAsyncMemoryResource::new()?;
        let builder = PoolMemoryResource::builder(upstream).initial_size(blocks * BYTES as u64);
        builder.maximum_size(blocks * BYTES as u64).build()
    });
}

#[test]
fn a_pool_that_extends_its_memory_keeps_order() {
    keeps_order("pool-virtual", |blocks| {
        let upstream = VirtualMemoryResource::new()?;
        let builder = PoolMemoryResource::builder(upstream).initial_size(blocks * BYTES as u64);
        builder.maximum_size(blocks * BYTES as u64).build()
    });
}

#[test]
fn an_arena_keeps_order() {
    keeps_order("arena", |blocks| {
        ArenaMemoryResource::builder(DEVICE).arena_size(blocks * BYTES as u64).build()
    });
}

#[test]
fn blocks_of_one_size_keep_order() {
    in_places_with("binning", |environment| {
        let kernels = Kernels::load(environment.handle())?;
        let builder =
            FixedSizeMemoryResource::builder(DEVICE).block_size(BYTES as u64 / 2 * 3).blocks(2);
        let blocks = builder.maximum_size(BYTES as u64 * 3).build()?;
        what_is_left_of_merged_blocks_keeps_order(&kernels, &blocks)
    });
}
