//! Failing each driver call of a program in turn.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

use crate::api::checker::Checker;
use crate::engine::machine::Machine;
use crate::model::fault::Fault;
use crate::model::trace::LeakKind;

/// Runs `program` on fresh machines, once for each driver call that it makes, with that call
/// returning `code`; and a last time with no call failing. Returns the number of calls that were
/// made to fail.
///
/// The program must return whichever call fails; whether its result is right is for the program to
/// assert. Calls of the set-up can be excluded by [`Machine::without_faults`]. What a failed call
/// should have released is not counted as a leak.
///
/// ```
/// use rmm_sys::{CuDevicePtr, CuContext, CuDevice, CuResult};
///
/// let failed = rmm_sim::fail_each_call(CuResult::UNKNOWN, |gpu| {
///     let (driver, mut context) = (rmm_sim::driver(), CuContext::NULL);
///     // SAFETY: the pointer is valid for a write.
///     gpu.without_faults(|| unsafe {
///         driver.cuInit(0).result().unwrap();
///         driver.cuDevicePrimaryCtxRetain(&mut context, CuDevice(0)).result().unwrap();
///         driver.cuCtxSetCurrent(context).result().unwrap();
///     });
///     let mut memory = CuDevicePtr::NULL;
///     // SAFETY: as above.
///     if unsafe { driver.cuMemAlloc_v2(&mut memory, 4096) }.is_success() {
///         // SAFETY: allocated just now.
///         let _ = unsafe { driver.cuMemFree_v2(memory) };
///     }
/// });
/// assert_eq!(failed, 2);
/// ```
///
/// # Panics
/// If a run panicked, had violations, or returned with leaks: immediately, with the report and the
/// call that failed.
#[track_caller]
pub fn fail_each_call(code: CuResult, program: impl Fn(&Machine)) -> u64 {
    Checker::new().fail_each_call(code, program)
}

impl Checker {
    /// Fails each of a program's driver calls in turn, see [`fail_each_call`]. The schedule is the
    /// one of the [machine's description](Self::machine).
    ///
    /// # Panics
    /// Where [`fail_each_call`] panics.
    #[track_caller]
    pub fn fail_each_call(&self, code: CuResult, program: impl Fn(&Machine)) -> u64 {
        for number in 1.. {
            let machine = self.build();
            machine.fail(Fault::any_call(number, code));
            let outcome = self.attempt(&machine, &program, |machine| {
                machine.failed_calls().first().and_then(|call| released_by(call))
            });
            let failed = machine.failed_calls();
            let failed = failed.first();
            if let Err(report) = outcome {
                let what = match failed {
                    Some(call) => {
                        format!("if {call} returns {code:?}: Fault::any_call({number}, ..)")
                    }
                    None => String::from("if no call fails"),
                };
                panic!("the check failed {what}\n{report}");
            }
            if failed.is_none() {
                return number - 1;
            }
        }
        u64::MAX
    }
}

/// The kind of object that a call releases.
fn released_by(call: &str) -> Option<LeakKind> {
    match call {
        "cuMemFree_v2" | "cuMemFreeAsync" | "cuMemFreeHost" | "cuMemHostUnregister" => {
            Some(LeakKind::Allocation)
        }
        "cuEventDestroy_v2" => Some(LeakKind::Event),
        "cuStreamDestroy_v2" => Some(LeakKind::Stream),
        "cuMemPoolDestroy" => Some(LeakKind::Pool),
        "cuMemAddressFree" => Some(LeakKind::AddressRange),
        "cuMemUnmap" => Some(LeakKind::Mapping),
        "cuMemRelease" => Some(LeakKind::PhysicalMemory),
        _ => None,
    }
}
