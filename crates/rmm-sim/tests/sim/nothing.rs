//! Allocations of no bytes, and frees of the null address.

use rmm_sim::Schedule;
use rmm_sys::CuDevicePtr;

use crate::common::{default_pool, start, stream};

#[test]
fn empty_allocations_have_a_null_address_and_need_no_free() {
    let (machine, _entered) = start(Schedule::Lazy);
    let stream = stream();
    let mut pointer = CuDevicePtr(7);
    ok!(cuMemAllocAsync(&raw mut pointer, 0, stream));
    assert_eq!(pointer, CuDevicePtr::NULL);
    ok!(cuMemFreeAsync(pointer, stream));
    let mut pointer = CuDevicePtr(7);
    ok!(cuMemAllocFromPoolAsync(&raw mut pointer, 0, default_pool(), stream));
    assert_eq!(pointer, CuDevicePtr::NULL);
    let mut host = std::ptr::dangling_mut();
    ok!(cuMemHostAlloc(&raw mut host, 0, 0));
    assert!(host.is_null());
    ok!(cuMemFreeHost(host));
    assert!(machine.leaks().iter().all(|leak| leak.bytes == 0));
    machine.assert_no_violations();
}
