//! Programs of cudarc's that know nothing of this library.
//!
//! The largest is the test program of cudarc 0.19.10 itself (`--lib --features std,driver,nvrtc`),
//! with `librmm_sim_driver.so` as `libcuda.so` in `LD_LIBRARY_PATH`. It is not run here, for it has
//! to be built from cudarc's sources. Which of its tests pass, and why others do not, is in
//! docs/decisions/0020-a-libcuda-of-the-software-device.md.

use cudarc::driver::{CudaContext, DriverError};
use cudarc_0_19 as cudarc;

use crate::common::*;

/// Upload, a copy on another stream, download.
fn program() -> Result<Vec<f32>, DriverError> {
    let context = CudaContext::new(0)?;
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let x = first.clone_htod(&[1.0, 2.0, 3.0])?;
    let y = second.clone_dtod(&x)?;
    first.clone_dtoh(&y)
}

#[test]
fn a_program_of_cudarc_is_in_order() {
    load();
    rmm_sim::check(|_| assert_eq!(program().unwrap(), [1.0, 2.0, 3.0]));
}

#[test]
fn two_threads_with_a_machine_each_do_not_see_each_other() {
    load();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let machine = rmm_sim::enter();
                    program().unwrap();
                    let allocations = machine
                        .call_counts()
                        .iter()
                        .find(|(name, _)| *name == "cuMemAllocAsync")
                        .copied();
                    assert_eq!(allocations, Some(("cuMemAllocAsync", 2)));
                    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
                }
            });
        }
    });
}

#[test]
fn what_is_not_served_is_an_error_and_no_panic() {
    check(|_, context| {
        assert!(cudarc::driver::profiler_start().is_err());
        assert!(
            context.set_flags(cudarc::driver::sys::CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC).is_ok()
        );
    });
}

#[test]
fn the_safe_layers_questions_have_answers() {
    check(|_, context| {
        assert!(context.name().is_ok());
        assert!(context.uuid().is_ok());
        assert!(context.compute_capability().is_ok_and(|(major, _)| major >= 5));
        let limit = cudarc::driver::sys::CUlimit::CU_LIMIT_STACK_SIZE;
        context.set_limit(limit, 4096).unwrap();
        assert_eq!(context.get_limit(limit).unwrap(), 4096);
        assert!(context.mem_get_info().is_ok_and(|(free, total)| 0 < free && free <= total));
    });
}

#[test]
fn unified_memory_is_attached_and_copied() {
    check(|_, context| {
        // SAFETY: the elements are written before they are read.
        let mut unified = unsafe { context.alloc_unified::<u32>(100, true) }.unwrap();
        unified.as_mut_slice().unwrap().fill(7);
        let stream = context.new_stream().unwrap();
        assert_eq!(stream.clone_dtoh(&unified).unwrap(), [7; 100]);
    });
}
