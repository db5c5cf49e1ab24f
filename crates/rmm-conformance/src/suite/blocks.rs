//! Helpers of the checks about stream order: slow work, and taking over a freed block.

use rmm_core::{CudaStream, Device, DevicePtr, Resource};

use crate::{CheckResult, CheckedBlock, DeviceCounter, Failure, Subject};

/// Words of the blocks that are handed over: 256 KiB.
pub const BLOCK_WORDS: u32 = 64 << 10;

/// Cycles that a slow kernel spins for: about 5 ms.
pub(super) const SLOW: u64 = 10_000_000;

/// Kernels behind a slow one. A software device runs a piece of work at each query of a stream:
/// some must be left after the queries of the resource.
pub(super) const TRAIL: usize = 8;

/// How often a resource without a limit is asked for memory that it may give from elsewhere.
pub(super) const ATTEMPTS: usize = 32;

/// Enqueues work that writes to the block for some time yet.
pub(super) fn keep_busy<R: Resource>(block: &CheckedBlock<'_, R>) -> CheckResult {
    block.fill(0xa000_0000, SLOW)?;
    (0..TRAIL).try_for_each(|_| block.fill(0xa000_0000, 0))
}

/// Fills the block and checks it at once, and again when the device has done everything: whatever
/// else writes to it shows.
pub(super) fn stays_intact<R: Resource>(
    block: &CheckedBlock<'_, R>,
    value: u32,
    errors: &DeviceCounter,
) -> CheckResult {
    block.fill(value, 0)?;
    block.check(value, errors)?;
    errors.expect_none(block.stream(), "memory was written to by earlier work")?;
    Device::synchronize_current()?;
    block.check(value, errors)?;
    errors.expect_none(block.stream(), "memory was written to by earlier work, late")
}

/// Has `stream` allocate until it gets the block at `wanted`, which was freed on another stream,
/// and uses it at once. A resource that always has other memory to give is not asked for ever; what
/// it gave last is used then.
pub(super) fn take_over<'a, R: Resource>(
    subject: &Subject<'a, R>,
    stream: &CudaStream,
    wanted: DevicePtr,
    words: u32,
    errors: &DeviceCounter,
) -> Result<CheckedBlock<'a, R>, Failure> {
    let mut others = Vec::new();
    let taken = loop {
        let block = subject.allocate(stream, words).map_err(|error| {
            Failure::new(format!("refused, although a free block would have done: {error}"))
        })?;
        if block.pointer() == wanted || others.len() == ATTEMPTS {
            break block;
        }
        others.push(block);
    };
    stays_intact(&taken, 0xb000_0000, errors)?;
    Ok(taken)
}
