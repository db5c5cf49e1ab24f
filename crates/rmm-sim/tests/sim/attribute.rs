//! Tests that are marked with `#[rmm_sim::test]`.

use std::sync::atomic::{AtomicU32, Ordering};

use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::{CuResult, CuStream};

use crate::checker::{make_current, two_writers};
use crate::common::{MIB, alloc};

#[rmm_sim::test]
fn a_marked_test_is_a_program_on_a_machine(gpu: &Machine) {
    two_writers(gpu, true);
}

#[rmm_sim::test]
#[should_panic(expected = "under all 10 schedules:\n  race: 1048576 bytes")]
fn a_marked_test_fails_if_it_races(gpu: &Machine) {
    two_writers(gpu, false);
}

#[rmm_sim::test]
#[should_panic(expected = "the test returned CUDA_ERROR_OUT_OF_MEMORY")]
fn a_marked_test_fails_by_its_error() -> Result<(), CuResult> {
    make_current();
    Err(CuResult::OUT_OF_MEMORY)
}

static RUNS: AtomicU32 = AtomicU32::new(0);

#[rmm_sim::test(
    machine = Machine::builder().devices(3),
    schedules = [Schedule::Lazy, Schedule::Eager],
    leaks = false,
)]
fn a_marked_test_takes_options_of_the_checker(gpu: &Machine) -> Result<(), CuResult> {
    make_current();
    let mut count = 0;
    cu!(cuDeviceGetCount(&raw mut count)).result()?;
    assert_eq!(count, 3);
    assert!(RUNS.fetch_add(1, Ordering::Relaxed) < 2, "there are two schedules");
    let kernel = Kernel::new("write", |_| ()).writes(alloc(MIB), MIB);
    gpu.launch(CuStream::NULL, kernel)
}
