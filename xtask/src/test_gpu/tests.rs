//! The whole command, with shell scripts in place of the real programs.

use super::*;
use crate::archive::{self, Contents};
use crate::scripts::{ONE_GPU, Scripts};

const NO_DRIVER: &str = r#"echo '{"driver":null,"devices":[]}'; exit 1"#;

/// Runs of the programs on one GPU.
const CELLS: usize = 2
    + super::matrix::STREAMS.len() * super::matrix::RESOURCES.len()
    + super::matrix::ADAPTORS.len();

const PASSES: &str =
    "echo 'running 1 test'; echo 'test a ... ok'; echo; echo 'test result: ok. 1 passed'";

/// An archive that was written by the real code from scripts.
struct Fixture {
    scripts: Scripts,
}

impl Fixture {
    fn new(rmm: &str, gpu: &str) -> Self {
        Self::with_cudarc(rmm, gpu, gpu)
    }

    fn with_cudarc(rmm: &str, gpu: &str, cudarc: &str) -> Self {
        let scripts = Scripts::new();
        let programs = [("rmm", rmm), ("gpu", gpu), ("cudarc", cudarc)];
        let programs = programs.map(|(name, body)| scripts.write(name, body)).into();
        let contents = Contents { programs, ..Contents::default() };
        archive::write(&scripts.folder().join("archive"), &contents).unwrap();
        Self { scripts }
    }

    fn folder(&self) -> PathBuf {
        self.scripts.folder().join("archive")
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
        ran.lines().any(|line| line.starts_with("cuda 0 per-thread cuda-async --test-threads=1 ")
            && line.ends_with(" pool::")),
        "{ran}"
    );
    assert_eq!(fixture.junit().matches("<testcase ").count(), CELLS);
}

#[test]
fn the_programs_of_cudarc_are_one_run_of_each_device() {
    let fails = "echo 'running 1 test'; echo 'test b ... FAILED'; echo; \
                 echo 'test result: FAILED. 0 passed; 1 failed'; exit 101";
    let fixture = Fixture::with_cudarc(ONE_GPU, PASSES, fails);
    assert_eq!(message(fixture.run(|_| ())), format!("1 of {CELLS} runs failed"));
    let junit = fixture.junit();
    assert!(junit.contains(r#"classname="gpu.device-0.its own.cudarc""#), "{junit}");
    assert_eq!(junit.matches("<failure ").count(), 1);
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
    let asked = fixture.scripts.folder().join("reports/deep/gpu.xml");
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
