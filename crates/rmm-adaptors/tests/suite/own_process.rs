//! A process of its own, for a test that other tests of its process would notice, or the other way
//! round.
//!
//! An announced capture, and a context that has ended or failed, affect all pools of a process:
//! each calls the driver again where it otherwise calls none, keeps blocks, and does not wait.
//! Other tests count calls, hits and waits. Ids of streams and numbers of threads are the
//! process's.

use std::process::Command;
use std::{env, thread};

/// Runs the test that calls this again in a process of its own, unless no other test runs in this
/// one. Returns whether it has, and has passed there: then the test ends here.
pub(crate) fn has_run() -> bool {
    const CHILD: &str = "RMM_TEST_OWN_PROCESS";

    // nextest runs every test in a process of its own.
    if env::var_os(CHILD).is_some() || env::var_os("NEXTEST").is_some() {
        return false;
    }
    let test = thread::current();
    // Where tests run one after another, they run on the main thread.
    let Some(name) = test.name().filter(|&name| name != "main") else { return false };
    let mut child = Command::new(env::current_exe().expect("this program"));
    let output = child.args(["--exact", name]).env(CHILD, "1").output().expect("it runs");
    let [printed, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    let has_passed = output.status.success() && printed.contains(" 1 passed");
    assert!(has_passed, "in a process of its own:\n{printed}{errors}");
    true
}
