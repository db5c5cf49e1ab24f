//! The whole command, with shell scripts in place of the real programs.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;
use crate::archive::{self, Contents};

/// Starting a process copies the descriptors of this one, and a script that any process holds open for writing cannot
/// be run: so one test at a time writes and runs scripts.
static SCRIPTS: Mutex<()> = Mutex::new(());

/// Asked about any other driver, it would not answer.
const ONE_GPU: &str = r#"[ "$RMM_DRIVER" = cuda ] || exit 3; echo '{"driver":{},"devices":[{"ordinal":0,"name":"Test GPU"}]}'"#;
const NO_DRIVER: &str = r#"echo '{"driver":null,"devices":[]}'; exit 1"#;

/// Runs of the program on one GPU.
const CELLS: usize = super::matrix::STREAMS.len() * super::matrix::RESOURCES.len();

const PASSES: &str =
    "echo 'running 1 test'; echo 'test a ... ok'; echo; echo 'test result: ok. 1 passed'";

/// An archive that was written by the real code from two scripts.
struct Fixture {
    dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Fixture {
    fn new(rmm: &str, gpu: &str) -> Self {
        let turn = SCRIPTS.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let script = |name: &str, body: &str| {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            (name.to_owned(), path)
        };
        let programs = vec![script("rmm", rmm), script("gpu", gpu)];
        let contents = Contents { programs, ..Contents::default() };
        archive::write(&dir.path().join("archive"), &contents).unwrap();
        Self { dir, _turn: turn }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("archive")
    }

    fn run(&self, change: impl FnOnce(&mut Args)) -> Result<()> {
        let mut args = Args { archive: Some(self.folder()), limit: 60, ..Args::default() };
        change(&mut args);
        run(&args)
    }

    fn junit(&self) -> String {
        fs::read_to_string(self.folder().join("test-gpu.xml")).unwrap()
    }
}

fn message(result: Result<()>) -> String {
    result.expect_err("the run was to fail").to_string()
}

#[test]
fn every_cell_runs_from_an_archive_with_its_own_settings() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let gpu = format!(
        "echo $RMM_DRIVER $RMM_TEST_DEVICE $RMM_TEST_STREAM $RMM_TEST_RESOURCE $@ >> {}\n{PASSES}",
        log.path().display()
    );
    let fixture = Fixture::new(ONE_GPU, &gpu);
    fixture.run(|args| args.rest = vec!["pool::".to_owned()]).unwrap();
    let ran = fs::read_to_string(log.path()).unwrap();
    assert_eq!(ran.lines().count(), CELLS);
    assert!(
        ran.lines().any(|line| line == "cuda 0 per-thread cuda-async --test-threads=1 pool::"),
        "{ran}"
    );
    assert_eq!(fixture.junit().matches("<testcase ").count(), CELLS);
}

#[test]
fn no_gpu_is_a_failure_unless_allowed() {
    let fixture = Fixture::new(NO_DRIVER, PASSES);
    assert!(message(fixture.run(|_| ())).starts_with("no GPU here"));
    fixture.run(|args| args.allow_no_gpu = true).unwrap();
    assert!(
        !fixture.folder().join("test-gpu.xml").exists(),
        "nothing was run, so there are no results"
    );
}

#[test]
fn a_doctor_that_says_nothing_is_a_failure_even_if_no_gpu_is_allowed() {
    let fixture = Fixture::new("echo broken >&2; exit 2", PASSES);
    let error = message(fixture.run(|args| args.allow_no_gpu = true));
    assert!(error.contains("printed no report") && error.ends_with("broken"), "{error}");
}

#[test]
fn a_cell_that_crashes_fails_alone_and_is_reported() {
    let gpu = format!(
        "if [ $RMM_TEST_RESOURCE = cuda ] && [ $RMM_TEST_STREAM = legacy ]; then\n\
         echo 'running 1 test'; printf 'test a ... '; kill -ABRT $$; fi\n{PASSES}"
    );
    let fixture = Fixture::new(ONE_GPU, &gpu);
    assert_eq!(message(fixture.run(|_| ())), format!("1 of {CELLS} runs failed"));
    let junit = fixture.junit();
    assert_eq!(junit.matches("<error ").count(), 1);
    assert!(junit.contains("signal: 6") && junit.contains("while `a` ran"), "{junit}");
}

#[test]
fn a_failed_test_fails_the_run_and_its_text_is_in_the_results() {
    let gpu = "echo 'running 1 test'; echo 'test a ... FAILED'; echo; echo 'failures:'; echo; \
               echo '---- a stdout ----'; echo '1 < 2 is wrong'; echo; echo 'failures:'; echo '    a'; echo; \
               echo 'test result: FAILED. 0 passed; 1 failed'; exit 101";
    let fixture = Fixture::new(ONE_GPU, gpu);
    assert_eq!(message(fixture.run(|_| ())), format!("{CELLS} of {CELLS} runs failed"));
    assert!(fixture.junit().contains(">1 &lt; 2 is wrong</failure>"));
}

#[test]
fn a_silent_program_fails() {
    let fixture = Fixture::new(ONE_GPU, "exit 0");
    assert_eq!(message(fixture.run(|_| ())), format!("{CELLS} of {CELLS} runs failed"));
}

#[test]
fn results_go_where_they_are_asked_to() {
    let fixture = Fixture::new(ONE_GPU, PASSES);
    let asked = fixture.dir.path().join("reports/deep/gpu.xml");
    fixture.run(|args| args.junit = Some(asked.clone())).unwrap();
    assert!(asked.exists() && !fixture.folder().join("test-gpu.xml").exists());
}

#[test]
fn a_device_that_is_not_there_cannot_be_asked_for() {
    let fixture = Fixture::new(ONE_GPU, PASSES);
    let error = message(fixture.run(|args| args.devices = vec![0, 7]));
    assert_eq!(error, "there is no device 7; there are: device 0 (Test GPU)");
}

#[test]
fn a_folder_that_is_no_archive_is_named_in_the_error() {
    let args =
        Args { archive: Some(Path::new("/nonexistent/archive").to_path_buf()), ..Args::default() };
    assert!(message(run(&args)).contains("/nonexistent/archive/manifest.json"));
}
