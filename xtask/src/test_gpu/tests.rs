//! The script, with others in the place of the real programs.

use std::fs;

use super::*;
use crate::archive::tests::{NO_DRIVER, ONE_GPU, run_script};

const PASSES: &str = "echo 'running 1 test'; echo 'test a ... ok'; echo; \
                      echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured'";

/// How many most tests run: enough for one to fail alone.
const FEW: usize = 4;

/// Runs the script with the first of its runs, and returns what that printed, and whether it
/// passed.
fn run(rmm: &str, gpu: &str, variables: &[(&str, &str)], runs: usize) -> (String, bool) {
    let list = runs::list().lines().take(runs).collect::<Vec<_>>().join("\n") + "\n";
    let files = [("bin/rmm", rmm), ("bin/gpu", gpu), ("bin/cudarc", PASSES), (RUNS, &*list)];
    run_script("test_gpu/run.sh", &files, &["pool::"], variables, |_, text, passed| (text, passed))
}

#[test]
fn every_run_has_its_own_settings() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let variables = "$RMM_DRIVER $RMM_TEST_DEVICE $RMM_TEST_STREAM $RMM_TEST_RESOURCE";
    let gpu = format!("echo {variables} $@ >> {}; {PASSES}", log.path().display());
    let all = runs::list().lines().count();
    let (text, passed) = run(ONE_GPU, &gpu, &[], all);
    assert!(passed && text.contains(&format!("0 of {all} runs failed")), "{text}");
    let ran = fs::read_to_string(log.path()).unwrap();
    assert_eq!(ran.lines().count(), all - 1);
    let is_it = |line: &&str| line.starts_with("cuda 0 per-thread cuda-async --skip=devices:: ");
    let line = ran.lines().find(is_it).unwrap();
    assert!(line.ends_with(" --test-threads=1 pool::"), "{line}");
    let own = "cuda 0 --skip=small:: --skip=spacious:: --test-threads=1 pool::";
    assert!(ran.lines().any(|line| line == own), "{ran}");
}

#[test]
fn no_gpu_is_a_failure_unless_allowed() {
    let (text, passed) = run(NO_DRIVER, PASSES, &[], FEW);
    assert!(!passed && text.contains("NO TEST WAS RUN"), "{text}");
    assert!(run(NO_DRIVER, PASSES, &[("ALLOW_NO_GPU", "1")], FEW).1);
    // A doctor that says nothing is broken.
    assert!(!run("exit 2", PASSES, &[("ALLOW_NO_GPU", "1")], FEW).1);
}

#[test]
fn a_device_that_is_not_there_cannot_be_asked_for() {
    let (text, passed) = run(ONE_GPU, PASSES, &[("DEVICES", "0 7")], FEW);
    assert!(!passed && text.contains("there is no device 7; there are: 0"), "{text}");
}

#[test]
fn a_run_that_crashes_fails_alone() {
    let crash = "[ \"$RMM_TEST_STREAM $RMM_TEST_RESOURCE\" = 'legacy pool' ] && kill -ABRT $$; ";
    let (text, passed) = run(ONE_GPU, &format!("{crash}{PASSES}"), &[], FEW);
    assert!(!passed && text.contains("1 of 4 runs failed"), "{text}");
    assert_eq!(text.matches("FAILED: ended with status 134").count(), 1, "{text}");
}

#[test]
fn neither_the_output_nor_the_status_is_believed_alone() {
    let fails = "echo 'test a ... FAILED'; echo '1 < 2 is wrong'; \
                 echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured'; exit 101";
    let empty = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured'";
    for body in [fails, empty, "exit 0", "echo 'test a ... ok'", &format!("{PASSES}; exit 3")] {
        let (text, passed) = run(ONE_GPU, body, &[("DEVICES", "0")], FEW);
        assert!(!passed && text.contains("3 of 4 runs failed"), "{body}: {text}");
        assert_eq!(text.contains("1 < 2 is wrong"), body == fails);
    }
}

#[test]
fn an_ignored_test_is_listed_once_with_its_reason() {
    let ignores = "echo 'test b ... ignored, needs two devices'; echo ok; echo 'test a ... ok'; \
                   echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'";
    let (text, passed) = run(ONE_GPU, ignores, &[], FEW);
    assert!(passed, "{text}");
    assert_eq!(text.matches("3 test b ... ignored, needs two devices").count(), 1, "{text}");
    assert!(text.contains("legacy       pool                      1      0       1"), "{text}");
}
