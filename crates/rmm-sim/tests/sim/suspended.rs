//! Memory that an allocator suspends: its blocks stay although their memory goes, its own accesses
//! respect no bounds, and the program's are checked as before.

use rmm_sim::{Schedule, ViolationKind};
use rmm_sys::{CuDevicePtr, CuResult};

use crate::checks::{annotate, kinds};
use crate::common::{start, stream};
use crate::mapped::{GRANULE, at, create, mapped, put, release, unmap};

fn suspend(memory: CuDevicePtr, bytes: usize, is_suspended: bool) {
    let listener = rmm_sim::driver().annotations.expect("the software device listens");
    listener.suspended(memory, bytes, is_suspended);
}

/// Memory with a block of 1000 bytes at its second KiB.
fn with_block() -> CuDevicePtr {
    let memory = mapped(1);
    annotate(true, 1, at(memory, 1024), 1000, None);
    memory
}

fn unmap_and_map(memory: CuDevicePtr) {
    unmap(memory, GRANULE);
    let physical = create(GRANULE);
    put(memory, GRANULE, physical);
    release(physical);
}

#[test]
fn blocks_that_are_suspended_may_be_copied_and_unmapped() {
    let (machine, _here) = start(Schedule::Lazy);
    let (memory, stream) = (with_block(), stream());
    suspend(memory, GRANULE, true);
    // From the block's start to behind its end, which it never wrote.
    let copy = mapped(1);
    ok!(cuMemcpyDtoDAsync_v2(copy, at(memory, 1024), 1024, stream));
    ok!(cuStreamSynchronize(stream));
    unmap_and_map(memory);
    suspend(memory, GRANULE, false);
    machine.assert_no_violations();
    // The block is there again, within its bounds.
    ok!(cuMemsetD8Async(at(memory, 1024), 1, 1000, stream));
    machine.assert_no_violations();
    ok!(cuMemsetD8Async(at(memory, 1024), 1, 1001, stream));
    assert_eq!(kinds(&machine), [ViolationKind::OutOfBounds]);
}

#[test]
fn blocks_that_are_not_suspended_may_not_be_unmapped() {
    let (machine, _here) = start(Schedule::Lazy);
    let memory = with_block();
    let other = mapped(1);
    suspend(other, GRANULE, true);
    unmap_and_map(memory);
    assert_eq!(kinds(&machine), [ViolationKind::FreedWithSuballocations]);
}

#[test]
fn work_that_is_pending_is_reported_when_a_suspended_block_goes() {
    let (machine, _here) = start(Schedule::Lazy);
    let (memory, stream) = (with_block(), stream());
    ok!(cuMemsetD8Async(at(memory, 1024), 1, 1000, stream));
    suspend(memory, GRANULE, true);
    unmap(memory, GRANULE);
    assert!(kinds(&machine).contains(&ViolationKind::FreedInUse), "{:?}", machine.violations());
}

#[test]
fn work_on_a_suspended_block_without_memory_is_reported() {
    let (machine, _here) = start(Schedule::Lazy);
    let (memory, stream) = (with_block(), stream());
    suspend(memory, GRANULE, true);
    unmap(memory, GRANULE);
    machine.assert_no_violations();
    // SAFETY: the software device refuses, and touches nothing.
    let code = unsafe { rmm_sim::driver().cuMemsetD8Async(at(memory, 1024), 1, 1000, stream) };
    assert_ne!(code, CuResult::SUCCESS);
    assert_eq!(kinds(&machine), [ViolationKind::UseAfterFree]);
}
