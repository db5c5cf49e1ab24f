//! An owner whose driver refuses, loses its device, or has shut down.
#![cfg(target_os = "linux")]

mod owner;

use owner::Owner;
use rmm_lease::LeaseError;
use rmm_lease::protocol::Lock;
use rmm_sim::Fault;
use rmm_sys::CuResult;

const BYTES: u64 = 2 << 20;

fn is_refused(result: Result<(), LeaseError>, with: CuResult) -> bool {
    let is_memory = with == CuResult::OUT_OF_MEMORY;
    matches!(result, Err(LeaseError::Refused(refusal)) if refusal.out_of_memory == is_memory)
}

#[test]
fn a_call_that_fails_is_a_refusal_and_loses_nothing() {
    let owner = Owner::start();
    let mut lease = owner.connect(Lock::Write);
    for code in [CuResult::OUT_OF_MEMORY, CuResult::UNKNOWN] {
        owner.machine.fail(Fault::nth("cuMemCreate", 1, code));
        assert!(is_refused(lease.allocate("a", BYTES), code), "{code}");
    }
    lease.allocate("a", BYTES).expect("no call fails");
    owner.machine.fail(Fault::nth("cuMemExportToShareableHandle", 1, CuResult::UNKNOWN));
    assert!(is_refused(lease.export("a").map(drop), CuResult::UNKNOWN));
    lease.export("a").expect("no call fails");
    lease.commit().expect("it writes");
    drop(lease);
    drop(owner.connect(Lock::Write));
    let machine = owner.machine.clone();
    drop(owner);
    machine.assert_no_violations();
}

#[test]
fn an_owner_outlives_its_driver() {
    let owner = Owner::start();
    let mut lease = owner.connect(Lock::Write);
    lease.allocate("a", BYTES).expect("there is memory");
    owner.machine.kill();
    assert!(is_refused(lease.allocate("b", BYTES), CuResult::DEINITIALIZED));
    assert!(is_refused(lease.export("a").map(drop), CuResult::DEINITIALIZED));
    lease.free("a").expect("there is nothing left to free");
    drop(lease);
    assert_eq!(owner.connect(Lock::Write).list().expect("it writes"), []);
}
