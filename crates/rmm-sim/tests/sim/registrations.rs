//! Memory that a library has registered may not go.

use rmm_sim::{Schedule, ViolationKind};
use rmm_sys::{CuDevicePtr, CuResult};

use crate::checks::kinds;
use crate::common::{start, stream};
use crate::mapped::{GRANULE, at, mapped, unmap};

#[test]
fn registered_memory_that_is_unmapped_or_freed_is_reported() {
    let (machine, _here) = start(Schedule::Lazy);
    let range = mapped(3);
    machine.register(at(range, GRANULE), GRANULE).expect("it is free");
    unmap(range, GRANULE);
    unmap(at(range, 2 * GRANULE), GRANULE);
    machine.assert_no_violations();
    unmap(at(range, GRANULE), GRANULE);
    let report = machine.violations()[0].to_string();
    assert!(report.contains("cuMemUnmap") && report.contains("has registered 2097152"), "{report}");
    let (mut block, stream) = (CuDevicePtr::NULL, stream());
    ok!(cuMemAlloc_v2(&raw mut block, 4096));
    machine.register(at(block, 256), 256).expect("it is free");
    ok!(cuMemFree_v2(block));
    machine.deregister(at(block, 256)).expect("it is registered");
    ok!(cuMemAllocAsync(&raw mut block, 4096, stream));
    machine.register(block, 4096).expect("it is free");
    ok!(cuMemFreeAsync(block, stream));
    assert_eq!(kinds(&machine), [ViolationKind::FreedWhileRegistered; 3]);
}

#[test]
fn what_is_deregistered_may_go() {
    let (machine, _here) = start(Schedule::Lazy);
    let range = mapped(4);
    machine.register(range, GRANULE).expect("it is free");
    machine.register(at(range, 2 * GRANULE), GRANULE).expect("it is free");
    for (from, bytes) in [(0, GRANULE), (0, 1), (GRANULE, 2 * GRANULE), (GRANULE, 0)] {
        assert_eq!(machine.register(at(range, from), bytes), Err(CuResult::INVALID_VALUE));
    }
    assert_eq!(machine.deregister(at(range, GRANULE)), Err(CuResult::INVALID_VALUE));
    machine.deregister(range).expect("it is registered");
    machine.deregister(at(range, 2 * GRANULE)).expect("it is registered");
    unmap(range, 4 * GRANULE);
    machine.assert_no_violations();
}
