//! An owner whose driver refuses, loses its device, or has shut down.
#![cfg(target_os = "linux")]

mod owner;

use std::alloc::Layout;
use std::time::{Duration, Instant};

use owner::Owner;
use rmm_core::{CudaStream, Resource};
use rmm_lease::protocol::Lock;
use rmm_lease::{LeaseError, LeasedMemoryResource, ServerOptions};
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

#[test]
fn an_allocation_waits_for_memory_that_others_return() {
    let mut options = ServerOptions::default();
    options.memory_wait = Some(Duration::from_secs(60));
    options.limit = 2 * BYTES;
    let owner = Owner::start_with(options);
    let mut lease = owner.connect(Lock::Write);
    owner.machine.fail(Fault::nth("cuMemCreate", 1, CuResult::OUT_OF_MEMORY));
    owner.machine.fail(Fault::nth("cuMemCreate", 2, CuResult::OUT_OF_MEMORY));
    lease.allocate("a", BYTES).expect("it is there at the third attempt");
    assert_eq!(lease.list().expect("it writes").len(), 1);
    // What no process can return is not waited for.
    let begin = Instant::now();
    assert!(is_refused(lease.allocate("b", 2 * BYTES), CuResult::OUT_OF_MEMORY), "the limit");
    assert!(is_refused(lease.allocate("a", BYTES), CuResult::UNKNOWN), "it is taken");
    owner.machine.fail(Fault::nth("cuMemCreate", 1, CuResult::UNKNOWN));
    assert!(is_refused(lease.allocate("b", BYTES), CuResult::UNKNOWN));
    assert!(begin.elapsed() < Duration::from_secs(10), "the time for an answer");
    lease.allocate("b", BYTES).expect("no call fails");
}

#[test]
fn an_allocation_that_waits_is_refused_in_time_and_ends_with_its_session() {
    let mut options = ServerOptions::default();
    options.memory_wait = Some(Duration::from_millis(120));
    let owner = Owner::start_with(options);
    let mut lease = owner.connect(Lock::Write);
    let begin = Instant::now();
    assert!(is_refused(lease.allocate("a", 1 << 50), CuResult::OUT_OF_MEMORY));
    assert!(begin.elapsed() >= Duration::from_millis(120), "it has waited");
    lease.allocate("a", BYTES).expect("the session goes on");
    drop(lease);

    options.memory_wait = Some(Duration::MAX);
    let owner = Owner::start_with(options);
    let mut lease = owner.connect(Lock::Write);
    lease.set_answer_time(Duration::from_millis(50));
    let late = lease.allocate("a", 1 << 50);
    assert!(matches!(late, Err(LeaseError::NoAnswer(_))), "{late:?}");
    // The request has gone with its session.
    assert_eq!(owner.connect(Lock::Write).list().expect("it writes"), []);
}

#[test]
fn a_session_waits_once_for_memory_that_does_not_come() {
    let mut options = ServerOptions::default();
    options.memory_wait = Some(Duration::from_millis(120));
    let owner = Owner::start_with(options);
    let mut lease = owner.connect(Lock::Write);
    let attempts = || {
        let counts = owner.machine.call_counts();
        counts.into_iter().find(|(name, _)| *name == "cuMemCreate").map_or(0, |(_, count)| count)
    };
    assert!(is_refused(lease.allocate("a", 1 << 50), CuResult::OUT_OF_MEMORY));
    assert!(attempts() > 1, "it has waited");
    // As a pool does, which asks for more than it needs at first.
    for bytes in [1 << 49, 1 << 50] {
        let before = attempts();
        assert!(is_refused(lease.allocate("a", bytes), CuResult::OUT_OF_MEMORY));
        assert_eq!(attempts(), before + 1, "it has not waited");
        lease.allocate(&bytes.to_string(), BYTES).expect("there is less");
    }
    drop(lease);
    // Once as much is there, what lacks may come, too.
    let mut lease = owner.connect(Lock::Write);
    owner.machine.fail(Fault::from_nth("cuMemCreate", 1, CuResult::OUT_OF_MEMORY));
    assert!(is_refused(lease.allocate("a", BYTES), CuResult::OUT_OF_MEMORY));
    owner.machine.clear_faults();
    lease.allocate("a", BYTES).expect("there is memory");
    let before = attempts();
    assert!(is_refused(lease.allocate("b", 1 << 50), CuResult::OUT_OF_MEMORY));
    assert!(attempts() > before + 1, "it has waited");
}

#[test]
fn a_free_waits_for_its_stream_as_that_of_virtual_memory_does() {
    let owner = Owner::start();
    let _here = owner.machine.enter();
    let pages = LeasedMemoryResource::new(owner.connect(Lock::Write)).expect("the device is here");
    let (stream, layout) = (CudaStream::new().expect("a stream"), Layout::new::<[u64; 100]>());
    let free = |error| {
        let block = pages.allocate(&stream, layout).expect("there is memory");
        owner.machine.fail(Fault::nth("cuStreamSynchronize", 1, error));
        // SAFETY: allocated above with this layout on this stream, and not used.
        unsafe { pages.deallocate(&stream, block, layout) };
    };
    free(CuResult::NO_DEVICE);
    assert!(format!("{pages:?}").contains("mapped_bytes: 0"), "no work: {pages:?}");
    free(CuResult::UNKNOWN);
    assert!(format!("{pages:?}").contains("mapped_bytes: 2097152"), "it may go on: {pages:?}");
}
