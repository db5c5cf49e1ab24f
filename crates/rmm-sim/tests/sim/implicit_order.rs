//! Suballocations on the legacy default stream, used on blocking streams by its implicit order.

use rmm_sim::{Schedule, ViolationKind};
use rmm_sys::CuStream;

use crate::checks::{annotate, kinds};
use crate::common::{alloc, blocking_stream, event, start};

const LEGACY: CuStream = CuStream::LEGACY;

#[test]
fn a_legacy_allocation_is_ordered_by_work_after_its_last_use() {
    for is_recorded in [true, false] {
        let (machine, _here) = start(Schedule::Lazy);
        let (first, second, chunk) = (blocking_stream(), blocking_stream(), alloc(1 << 20));
        annotate(true, 1, chunk, 256, Some(LEGACY));
        ok!(cuMemsetD8Async(chunk, 1, 256, first));
        annotate(false, 1, chunk, 256, Some(LEGACY));
        if is_recorded {
            ok!(cuEventRecord(event(), LEGACY));
        }
        annotate(true, 1, chunk, 256, Some(LEGACY));
        ok!(cuMemsetD8Async(chunk, 2, 256, second));
        let expected: &[_] = if is_recorded { &[] } else { &[ViolationKind::UseBeforeAllocation] };
        assert_eq!(kinds(&machine), expected, "recorded: {is_recorded}");
    }
}

#[test]
fn a_legacy_allocation_ignores_other_work_of_blocking_streams() {
    let (machine, _here) = start(Schedule::Lazy);
    let (user, busy, chunk) = (blocking_stream(), blocking_stream(), alloc(1 << 20));
    let other = alloc(256);
    annotate(true, 1, chunk, 256, Some(LEGACY));
    ok!(cuMemsetD8Async(chunk, 1, 256, LEGACY));
    annotate(false, 1, chunk, 256, Some(LEGACY));
    ok!(cuEventRecord(event(), LEGACY));
    // The next work of the legacy stream waits for this, but the allocation below is none.
    ok!(cuMemsetD8Async(other, 1, 256, busy));
    annotate(true, 1, chunk, 256, Some(LEGACY));
    ok!(cuMemsetD8Async(chunk, 2, 256, user));
    machine.assert_no_violations();
}
