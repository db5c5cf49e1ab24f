//! Futures that are dropped while the process exits: no call reaches the driver.

#![cfg(unix)]

use std::io::{Write as _, stderr};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Waker};

use rmm_async::{Completion, Download, completed, download, wait_for_abandoned};
use rmm_containers::DeviceUVector;
use rmm_core::{CudaStream, process_is_exiting};
use rmm_sim::{Machine, Schedule};

/// Set in the program that the test starts.
const VARIABLE: &str = "RMM_TEST_ASYNC_EXIT";
/// The exit status if a check at the very end fails.
const WRONG: i32 = 42;

static MACHINE: OnceLock<Machine> = OnceLock::new();
static HELD: Mutex<Option<(Completion, Download<u32>)>> = Mutex::new(None);

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
    fn _exit(status: i32) -> !;
}

/// Registered before the library's own exit handler, so it runs after it.
extern "C" fn at_the_very_end() {
    let Some(machine) = MACHINE.get() else { return };
    // The crate's thread may be in the middle of queries that it began before.
    wait_for_abandoned();
    let calls = machine.calls();
    drop(HELD.lock().unwrap_or_else(PoisonError::into_inner).take());
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
    let machine = MACHINE.get_or_init(|| Machine::builder().schedule(Schedule::Lazy).build());
    let _entered = machine.enter();
    let stream = CudaStream::new().expect("a stream");
    let mut vector = DeviceUVector::<u32>::zeroed(100, &stream).expect("a vector");
    for value in 0..100 {
        vector.fill(value).expect("it is enqueued");
    }
    let mut done = completed(&stream).expect("it is enqueued");
    let mut context = Context::from_waker(Waker::noop());
    assert!(std::pin::Pin::new(&mut done).poll(&mut context).is_pending());
    let copy = download(vector.as_slice(), &stream).expect("it is enqueued");
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some((done, copy));
    let _leaked = std::mem::ManuallyDrop::new(vector);
}

#[test]
fn futures_at_process_exit_call_no_driver() {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "leave", "--nocapture", "--test-threads=1"]).env(VARIABLE, "1");
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{:?}\n{said}", output.status);
}
