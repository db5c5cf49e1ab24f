//! Order checks on mapped memory: through several addresses, and at the end of a mapping.

use rmm_sim::{Kernel, Machine, Schedule, ViolationKind};
use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuMemAccessFlags, CuResult, CuStream};

use crate::checks::{annotate, kinds, only, order};
use crate::common::{enter, peek, start, stream};
use crate::mapped::{
    GRANULE, at, create, grant, grant_to, map, mapped, put, release, reserve, unmap,
};

const SCHEDULES: [Schedule; 2] = [Schedule::Eager, Schedule::Lazy];

/// Two mappings of the same two granules of physical memory.
fn aliased() -> [CuDevicePtr; 2] {
    let handle = create(2 * GRANULE);
    let ranges = [reserve(2 * GRANULE), reserve(2 * GRANULE)];
    for range in ranges {
        put(range, 2 * GRANULE, handle);
    }
    release(handle);
    ranges
}

#[test]
fn accesses_through_two_mappings_of_one_memory_race() {
    for schedule in SCHEDULES {
        let (machine, _here) = start(schedule);
        let ([x, y], a, b) = (aliased(), stream(), stream());
        ok!(cuMemsetD8Async(x, 1, 4096, a));
        machine.launch(b, Kernel::new("look", |_| ()).reads(at(y, 4096), 64)).unwrap();
        machine.assert_no_violations(); // other bytes
        machine.launch(b, Kernel::new("look", |_| ()).reads(at(y, 1024), 64)).unwrap();
        let violation = only(&machine);
        assert_eq!(violation.kind, ViolationKind::Race);
        let place = violation.place.expect("the place is reported");
        assert_eq!(place, (format!("v+{:#x}", y.0 - x.0 + 1024), 64), "at the second address");
        order(b, a);
        ok!(cuMemsetD8Async(x, 1, 4096, a));
        order(a, b);
        ok!(cuMemsetD8Async(y, 1, 4096, b));
        assert_eq!(machine.violations().len(), 1);
    }
}

#[test]
fn memory_keeps_its_history_from_one_mapping_to_the_next() {
    let (machine, _here) = start(Schedule::Lazy);
    let (handle, a, b) = (create(GRANULE), stream(), stream());
    let [first, second, third] = [(); 3].map(|()| reserve(GRANULE));
    put(first, GRANULE, handle);
    put(second, GRANULE, handle);
    ok!(cuMemsetD8Async(first, 1, 64, a));
    unmap(second, GRANULE); // no work uses it by this address
    machine.assert_no_violations();
    put(third, GRANULE, handle);
    ok!(cuMemsetD8Async(third, 2, 64, b));
    assert_eq!(only(&machine).kind, ViolationKind::Race);
}

#[test]
fn addresses_have_a_new_history_with_each_mapping() {
    let (machine, _here) = start(Schedule::Lazy);
    let (memory, a) = (mapped(1), stream());
    ok!(cuMemsetD8Async(memory, 1, 64, a));
    for _ in 0..2 {
        unmap(memory, GRANULE);
        put(memory, GRANULE, create(GRANULE));
    }
    assert_eq!(only(&machine).kind, ViolationKind::FreedInUse, "of the first mapping alone");
}

#[test]
fn a_mapping_may_end_after_the_host_waited_for_its_uses() {
    for schedule in SCHEDULES {
        for waits in [true, false] {
            let (machine, _here) = start(schedule);
            let (memory, a) = (mapped(2), stream());
            ok!(cuMemsetD8Async(at(memory, GRANULE), 1, 64, a));
            unmap(memory, GRANULE);
            machine.assert_no_violations();
            if waits {
                ok!(cuStreamSynchronize(a));
            }
            unmap(at(memory, GRANULE), GRANULE);
            assert_eq!(machine.violations().is_empty(), waits, "{schedule:?}");
            if !waits {
                assert_eq!(
                    only(&machine).to_string(),
                    "freed while in use: 2097152 bytes at v+0x200000: fill writes it as item 1 of stream 2, then cuMemUnmap \
                     frees it on the host: the host is not ordered after stream 2; wait on the host until item 1 is \
                     complete"
                );
            }
        }
    }
}

#[test]
fn unmapping_does_not_wait_and_late_work_is_skipped() {
    let (machine, _here) = start(Schedule::Lazy);
    let (memory, a) = (mapped(1), stream());
    ok!(cuMemsetD8Async(memory, 1, 64, a));
    unmap(memory, GRANULE);
    // The work was not meant for the memory that is mapped there later.
    let handle = create(GRANULE);
    put(memory, GRANULE, handle);
    ok!(cuStreamSynchronize(a));
    assert_eq!(kinds(&machine), [ViolationKind::FreedInUse, ViolationKind::UseAfterFree]);
    assert_eq!(peek(&machine, memory), 0);
    unmap(memory, GRANULE);
    assert_eq!(cu!(cuMemsetD8Async(memory, 1, 64, a)), CuResult::INVALID_VALUE);
    assert_eq!(kinds(&machine)[2..], [ViolationKind::UseAfterFree]);
}

#[test]
fn a_kernel_cannot_access_memory_that_was_unmapped() {
    let (machine, _here) = start(Schedule::Lazy);
    let (memory, a) = (mapped(2), stream());
    let kernel = Kernel::new("late", move |kernel| {
        assert_eq!(kernel.read(memory, &mut [0]), Ok(()));
        let over = at(memory, GRANULE - 1);
        assert_eq!(kernel.write(over, &[1, 1]), Err(CuResult::ILLEGAL_ADDRESS));
    });
    machine.launch(a, kernel.writes(memory, 2 * GRANULE)).unwrap();
    unmap(at(memory, GRANULE), GRANULE);
    ok!(cuStreamSynchronize(a));
    assert_eq!(kinds(&machine), [ViolationKind::FreedInUse, ViolationKind::UseAfterFree]);
}

#[test]
fn memory_and_addresses_are_released_when_no_work_uses_them() {
    for schedule in SCHEDULES {
        let (machine, _here) = start(schedule);
        let (range, handle, a) = (reserve(GRANULE), create(GRANULE), stream());
        put(range, GRANULE, handle);
        ok!(cuMemsetD8Async(range, 1, 64, a));
        unmap(range, GRANULE);
        release(handle);
        ok!(cuMemAddressFree(range, GRANULE));
        assert_eq!(kinds(&machine), [ViolationKind::FreedInUse; 3]);
        let what = machine.violations().into_iter().map(|v| v.second.expect("a call").what);
        assert!(what.eq(["cuMemUnmap", "cuMemRelease", "cuMemAddressFree"]));
    }
    let (machine, _here) = start(Schedule::Lazy);
    let (range, handle, a) = (reserve(GRANULE), create(GRANULE), stream());
    put(range, GRANULE, handle);
    ok!(cuMemsetD8Async(range, 1, 64, a));
    release(handle); // it is mapped: nothing goes
    ok!(cuStreamSynchronize(a));
    unmap(range, GRANULE);
    ok!(cuMemAddressFree(range, GRANULE));
    machine.assert_no_violations();
    assert_eq!(cu!(cuMemsetD8Async(range, 1, 64, a)), CuResult::INVALID_VALUE);
    assert_eq!(cu!(cuMemAddressFree(range, GRANULE)), CuResult::INVALID_VALUE);
    assert_eq!(cu!(cuMemRelease(handle)), CuResult::INVALID_VALUE);
    assert_eq!(
        kinds(&machine),
        [ViolationKind::UseAfterFree, ViolationKind::DoubleFree, ViolationKind::DoubleFree]
    );
}

#[test]
fn work_needs_the_access_rights_of_its_device() {
    for schedule in SCHEDULES {
        let (machine, _here) = enter(Machine::builder().devices(2).schedule(schedule).build());
        let (range, handle, a) = (reserve(2 * GRANULE), create(GRANULE), stream());
        map(range, GRANULE, handle);
        let (refused, mut byte) = (CuResult::INVALID_VALUE, 0_u8);
        assert_eq!(cu!(cuMemsetD8Async(range, 1, 64, a)), refused, "no rights at first");
        grant_to(0, range, GRANULE, CuMemAccessFlags::READ);
        assert_eq!(cu!(cuMemsetD8Async(range, 1, 64, a)), refused);
        ok!(cuMemcpyDtoH_v2((&raw mut byte).cast(), range, 1));
        grant(range, GRANULE);
        ok!(cuMemsetD8Async(range, 1, 64, a));
        assert_eq!(kinds(&machine), [ViolationKind::NoAccess; 2]);

        let mut context = CuContext::NULL;
        ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(1)));
        ok!(cuCtxPushCurrent_v2(context));
        let b = stream();
        ok!(cuCtxPopCurrent_v2(&raw mut context));
        let launched = machine.launch(b, Kernel::new("peer", |_| ()).reads(range, 1));
        assert_eq!(launched, Err(refused), "the stream's device is another");
        grant_to(1, range, GRANULE, CuMemAccessFlags::READ);
        order(a, b);
        machine.launch(b, Kernel::new("peer", |_| ()).reads(range, 1)).unwrap();
        // Addresses without a mapping have no access rights.
        let over = at(range, GRANULE - 1);
        assert_eq!(cu!(cuMemcpyDtoH_v2((&raw mut byte).cast(), over, 2)), refused);
        assert_eq!(
            kinds(&machine)[2..],
            [ViolationKind::NoAccess, ViolationKind::OutOfBounds],
            "{:?}",
            machine.violations()
        );
    }
}

#[test]
fn rights_may_be_revoked_after_the_host_waited_for_their_uses() {
    for schedule in SCHEDULES {
        let (machine, _here) = start(schedule);
        let (memory, a) = (mapped(1), stream());
        machine.launch(a, Kernel::new("look", |_| ()).reads(memory, 64)).unwrap();
        grant_to(0, memory, GRANULE, CuMemAccessFlags::READ);
        machine.assert_no_violations(); // it only reads
        grant(memory, GRANULE);
        ok!(cuMemsetD8Async(memory, 1, 64, a));
        ok!(cuStreamSynchronize(a));
        grant_to(0, memory, GRANULE, CuMemAccessFlags::READ);
        grant(memory, GRANULE);
        machine.assert_no_violations();
        ok!(cuMemsetD8Async(memory, 2, 64, a));
        grant_to(0, memory, GRANULE, CuMemAccessFlags::READ);
        let first = machine.violations()[0].clone();
        assert_eq!((first.kind, first.missing.is_some()), (ViolationKind::NoAccess, true));
        ok!(cuStreamSynchronize(a));
        // If the work had run before, it did no harm in this run; otherwise it was skipped.
        let (late, found) = (schedule == Schedule::Lazy, machine.violations().len());
        assert_eq!((found, peek(&machine, memory)), if late { (2, 1) } else { (1, 2) });
    }
}

#[test]
fn a_suballocators_blocks_span_mappings() {
    let (machine, _here) = start(Schedule::Lazy);
    let (range, a, b) = (reserve(4 * GRANULE), stream(), stream());
    let handles = [(); 2].map(|()| create(GRANULE));
    put(range, GRANULE, handles[0]);
    let annotate_all =
        |out, stream: CuStream| annotate(out, 1, range, GRANULE + 4096, Some(stream));
    put(at(range, GRANULE), GRANULE, handles[1]);
    annotate_all(true, a);
    ok!(cuMemsetD8Async(range, 1, GRANULE + 4096, a));
    machine.assert_no_violations();
    ok!(cuMemsetD8Async(at(range, GRANULE + 4096), 1, 4096, a));
    assert_eq!(kinds(&machine), [ViolationKind::OutOfBounds]);
    annotate_all(false, a);
    annotate_all(true, b);
    assert_eq!(kinds(&machine)[1..], [ViolationKind::AllocatedInUse], "once for both mappings");
    ok!(cuCtxSynchronize());
    unmap(at(range, GRANULE), GRANULE);
    assert_eq!(kinds(&machine)[2..], [ViolationKind::FreedWithSuballocations]);
}

#[test]
fn a_freed_block_is_unmapped_once_its_free_is_complete() {
    let (machine, _here) = start(Schedule::Lazy);
    let (memory, a) = (mapped(1), stream());
    for waits in [true, false] {
        annotate(true, 1, memory, 4096, Some(a));
        ok!(cuMemsetD8Async(memory, 1, 4096, a));
        annotate(false, 1, memory, 4096, Some(a));
        if waits {
            ok!(cuStreamSynchronize(a));
        }
        unmap(memory, GRANULE);
        assert_eq!(machine.violations().is_empty(), waits);
        put(memory, GRANULE, create(GRANULE));
    }
    assert!(kinds(&machine).iter().all(|&kind| kind == ViolationKind::FreedInUse));
}

#[test]
fn a_block_may_be_suballocated_before_its_memory_is_mapped() {
    let (machine, _here) = start(Schedule::Lazy);
    let (range, a) = (reserve(2 * GRANULE), stream());
    let block = at(range, GRANULE);
    annotate(true, 1, block, 4096, Some(a));
    put(block, GRANULE, create(GRANULE));
    ok!(cuMemsetD8Async(block, 1, 4096, a));
    machine.assert_no_violations();
    ok!(cuMemsetD8Async(block, 1, 4097, a));
    assert_eq!(only(&machine).kind, ViolationKind::OutOfBounds);
}

fn unmap_here(memory: CuDevicePtr) {
    unmap(memory, GRANULE);
}

fn fill_here(memory: CuDevicePtr, stream: CuStream) {
    assert_eq!(cu!(cuMemsetD8Async(memory, 1, 64, stream)), CuResult::INVALID_VALUE);
}

#[inline(never)]
fn reserve_here() -> CuDevicePtr {
    reserve(2 * GRANULE)
}

#[test]
fn a_use_of_unmapped_addresses_is_shown_with_both_calls() {
    let (machine, _here) = enter(Machine::builder().backtraces(true).build());
    let (range, a) = (reserve_here(), stream());
    fill_here(at(range, GRANULE), a);
    put(range, GRANULE, create(GRANULE));
    unmap_here(range);
    fill_here(range, a);
    let reports: Vec<String> = machine.violations().iter().map(ToString::to_string).collect();
    let places = [
        (
            "out of bounds",
            "0x200000",
            "cuMemAddressReserve allocates it on the host",
            "reserve_here",
        ),
        ("use after free", "0x0", "cuMemUnmap frees it on the host", "unmap_here"),
    ];
    assert_eq!(reports.len(), 2);
    for (report, (kind, place, first, site)) in reports.iter().zip(places) {
        let expected = format!(
            "{kind}: 64 bytes at v+{place}: {first}, then fill that writes it is enqueued: nothing is mapped there"
        );
        assert!(report.starts_with(&expected), "{report}");
        let (_, sites) = report.split_once("the first access was made at").expect("a site");
        let (first, second) = sites.split_once("the second access was made at").expect("two");
        assert!(first.contains(site) && second.contains("fill_here"), "{report}");
    }
}
