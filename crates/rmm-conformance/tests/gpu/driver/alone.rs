//! Probes that corrupt the context of their process, each in its own process.

use std::io::Write;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, exit};

use rmm_conformance::{CheckResult, Environment, Place};
use rmm_core::driver_in_context;

/// Set for the child.
const CHILD: &str = "RMM_TEST_ALONE";

/// Runs a probe in every place that the environment chooses, in a child process. `test` is the path
/// of the calling test.
#[track_caller]
pub(super) fn in_a_process_of_its_own(test: &str, probe: impl Fn(&Environment) -> CheckResult) {
    if std::env::var(CHILD).is_ok_and(|child| child == test) {
        // Not by returning: what would be dropped then may be of a context that is gone.
        let ran = catch_unwind(AssertUnwindSafe(|| run(probe)));
        exit(i32::from(!matches!(ran, Ok(true))));
    }
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--test-threads=1", "--nocapture"])
        .env(CHILD, test)
        .output()
        .expect("it starts");
    let (out, printed) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}{printed}", output.status);
    assert!(!out.contains("running 0 tests"), "{test} is the path of no test");
    // For the reader of a run's output.
    let _ignored = write!(std::io::stderr(), "{printed}");
}

/// Leaves what is of a context that is gone: its end would call the driver, with handles and
/// addresses that may be others' now.
pub(super) fn leave<T>(gone: T) {
    let _leaked = ManuallyDrop::new(gone);
}

/// Whether the probe passed in every place.
fn run(probe: impl Fn(&Environment) -> CheckResult) -> bool {
    let places = Place::selected().unwrap_or_else(|failure| panic!("{failure}"));
    let mut passed = true;
    for place in places {
        let probed = Environment::open(place).and_then(|environment| {
            driver_in_context()?;
            let outcome = probe(&environment);
            leave(environment);
            outcome
        });
        if let Err(failure) = probed {
            // There is nowhere to report a failed write.
            let _ignored = writeln!(std::io::stderr(), "{place:?}: {failure}");
            passed = false;
        }
    }
    passed
}
