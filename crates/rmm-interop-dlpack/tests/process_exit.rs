//! Deleters that are called while the process exits: no call reaches the driver.

#![cfg(unix)]

use std::io::{Write as _, stderr};
use std::process::Command;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::{CudaStream, process_is_exiting};
use rmm_interop_dlpack::{DLManagedTensorVersioned, DlpackTensor, Ready, ToDlpack, from_dlpack};
use rmm_sim::Machine;

/// Set in the program that the test starts.
const VARIABLE: &str = "RMM_TEST_DLPACK_EXIT";
/// The exit status if a check at the very end fails.
const WRONG: i32 = 42;

/// What another library still holds when the process exits.
struct Held {
    exported: Vec<NonNull<DLManagedTensorVersioned>>,
    imported: DlpackTensor<u32>,
}

// SAFETY: tensors may be freed on any thread.
unsafe impl Send for Held {}

static MACHINE: OnceLock<Machine> = OnceLock::new();
static HELD: Mutex<Option<Held>> = Mutex::new(None);

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
    fn _exit(status: i32) -> !;
}

/// Registered before the library's own exit handler, so it runs after it.
extern "C" fn at_the_very_end() {
    let Some(machine) = MACHINE.get() else { return };
    let calls = machine.calls();
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Held { exported, imported } = held.expect("it was filled");
    for tensor in exported {
        // SAFETY: the tensor exists until its deleter is called.
        let deleter = unsafe { (*tensor.as_ptr()).deleter }.expect("exported tensors have one");
        // SAFETY: it is called once, with its tensor.
        unsafe { deleter(tensor.as_ptr()) };
    }
    drop(imported);
    let called = machine.calls() - calls;
    if !process_is_exiting() || called != 0 {
        let _unsaid = writeln!(stderr(), "exiting: {}, {called} calls", process_is_exiting());
        // SAFETY: ends the process at once.
        unsafe { _exit(WRONG) };
    }
}

/// The started program. Without the variable it is an empty test.
#[test]
fn leave() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    // SAFETY: the handler is a function that does not unwind.
    assert_eq!(unsafe { atexit(at_the_very_end) }, 0);
    let machine = MACHINE.get_or_init(Machine::new);
    let _entered = machine.enter();
    let stream = CudaStream::new().expect("a stream");
    let vector = || DeviceUVector::from_slice(&[1u32, 2], &stream).expect("a vector");
    let export = || vector().into_dlpack(&[2], Ready::On((&stream).into())).expect("a tensor");
    let pinned = PinnedVec::from_slice(&[1u32]).expect("a vector");
    let pinned = pinned.into_dlpack(&[1], Ready::On((&stream).into())).expect("a tensor");
    // SAFETY: the tensor is valid, passed on once, and ready on the stream.
    let imported = unsafe { from_dlpack(export(), &stream) }.expect("a vector");
    let held = Held { exported: vec![export(), pinned], imported };
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
}

#[test]
fn deleters_at_process_exit_call_no_driver() {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "leave", "--nocapture", "--test-threads=1"]).env(VARIABLE, "1");
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{:?}\n{said}", output.status);
}
