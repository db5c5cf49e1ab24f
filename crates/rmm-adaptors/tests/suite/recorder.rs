//! Tests of the recorder: what it keeps, and its reports of failures.

use std::path::{Path, PathBuf};
use std::process::Command;

use rmm_adaptors::{
    RecorderResourceAdaptor, Tag, TaggedResourceAdaptor, with_oom_report, write_pages_by,
};
use rmm_core::{AnyResource, DevicePtr, Effort, SynchronousResource, effort};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

use crate::support::layout;

fn written<U>(recorder: &RecorderResourceAdaptor<U>) -> Vec<String> {
    let mut log = Vec::new();
    recorder.write_log(&mut log).expect("memory");
    let log = String::from_utf8(log).expect("memory");
    let mut lines = log.lines().map(str::to_owned);
    let header = "Thread,Time,Action,Pointer,Size,Stream,Tag,Site,Device";
    assert_eq!(lines.next().as_deref(), Some(header));
    let rows: Vec<String> = lines.collect();
    let (mark, rows) = rows.split_last().expect("the mark");
    assert!(mark.ends_with(",allocate failure,(nil),0,0,,,0"), "{mark}");
    rows.to_vec()
}

/// `Action,Size,Tag` of each row.
fn calls(rows: &[String]) -> Vec<String> {
    let fields = |row: &String| {
        let fields: Vec<&str> = row.split(',').collect();
        format!("{},{},{}", fields[2], fields[4], fields[6])
    };
    rows.iter().map(fields).collect()
}

fn free(resource: &impl SynchronousResource, pointer: DevicePtr, bytes: usize) {
    // SAFETY: the tests allocate it with this layout, and do not use it.
    unsafe { resource.deallocate_sync(pointer, layout(bytes)) };
}

#[test]
fn the_last_events_come_after_the_blocks_that_were_live_before_them() {
    let _machine = Machine::builder().memory(64 << 20).enter();
    let builder = RecorderResourceAdaptor::builder(CudaMemoryResource::new());
    let recorder = builder.events(4).sites(true).build();
    assert_eq!(calls(&written(&recorder)), [""; 0]);
    let scope = Tag::named("recorder's weights").enter();
    let kept = recorder.allocate_sync(layout(100)).unwrap();
    let of_kept = line!() - 1;
    let freed_later = recorder.allocate_sync(layout(5000)).unwrap();
    drop(scope);
    let large = recorder.allocate_sync(layout(3000)).unwrap();
    free(&recorder, large, 3000);
    free(&recorder, freed_later, 5000);
    recorder.allocate_sync(layout(128 << 20)).unwrap_err();
    let of_failure = line!() - 1;
    assert_eq!((recorder.events(), recorder.capacity()), (6, 4));
    let rows = written(&recorder);
    assert_eq!(
        calls(&rows),
        [
            "allocate,5000,recorder's weights",
            "allocate,100,recorder's weights",
            "allocate,3000,untagged",
            "free,3000,",
            "free,5000,",
            "allocate failure,134217728,untagged",
        ]
    );
    let site = |line: u32| format!("tests/suite/recorder.rs:{line} ");
    assert!(rows[0].starts_with("0,") && !rows[2].starts_with("0,"), "{rows:#?}");
    assert!(rows[1].contains(&site(of_kept)), "{}", rows[1]);
    assert!(rows[5].contains(&site(of_failure)), "{}", rows[5]);
    free(&recorder, kept, 100);
}

#[test]
fn an_address_that_is_freed_to_the_upstream_may_come_again() {
    let _machine = rmm_sim::enter();
    let upstream = CudaMemoryResource::new();
    let recorder = RecorderResourceAdaptor::new(upstream);
    let first = recorder.allocate_sync(layout(1000)).unwrap();
    free(&upstream, first, 1000);
    let second = recorder.allocate_sync(layout(2000)).unwrap();
    free(&recorder, second, 2000);
    let rows = written(&recorder);
    assert_eq!(rows.len(), 3, "{rows:#?}");
}

/// Runs the test of this name again in a process of its own, where `RMM_OOM_REPORT` is `directory`.
/// Returns whether this is that process.
fn runs_here(test: &str, directory: &Path) -> bool {
    const CHILD: &str = "RMM_TEST_RECORDER_CHILD";

    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", &format!("recorder::{test}")]).env(CHILD, "1");
    let output = child.env("RMM_OOM_REPORT", directory).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    false
}

fn directory(name: &str) -> PathBuf {
    // A child has the parent's.
    let named = std::env::var_os("RMM_OOM_REPORT").map(PathBuf::from);
    named.unwrap_or_else(|| std::env::temp_dir().join(format!("rmm-{name}-{}", std::process::id())))
}

/// The names of the files of a directory.
fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("it is there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_failure_writes_at_most_three_reports_and_names_them() {
    let directory = directory("reports");
    std::fs::create_dir_all(&directory).unwrap();
    if !runs_here("a_failure_writes_at_most_three_reports_and_names_them", &directory) {
        std::fs::remove_dir_all(&directory).unwrap();
        return;
    }
    write_pages_by(|log, page| {
        assert!(std::fs::read_to_string(log)?.contains(",allocate failure,(nil),134217728,0,"));
        std::fs::write(page, "a page")
    });
    let _machine = Machine::builder().memory(64 << 20).enter();
    let tagged = TaggedResourceAdaptor::new(CudaMemoryResource::new());
    let resource = with_oom_report(AnyResource::new(tagged));
    let scope = Tag::named("activations").enter();
    let block = resource.allocate_sync(layout(4096)).unwrap();
    drop(scope);
    let process = std::process::id();
    {
        let _scope = effort(Effort::NoGrowth);
        let expected = resource.allocate_sync(layout(128 << 20)).unwrap_err();
        assert_eq!((expected.report(), files(&directory).len()), (None, 0));
    }
    for number in 0..3 {
        let error = resource.allocate_sync(layout(128 << 20)).unwrap_err();
        assert!(error.is_out_of_memory());
        let (log, page) = (
            directory.join(format!("rmm-oom-{process}-{number}.csv")),
            directory.join(format!("rmm-oom-{process}-{number}.html")),
        );
        let (log, page) = (log.display(), page.display());
        let said = format!("the requests before are in {log}, drawn in {page}");
        assert_eq!(error.report(), Some(&*said));
        assert!(error.to_string().ends_with(&format!("; {said}")), "{error}");
        assert!(error.to_string().contains("largest tags: activations 4.0 KiB"), "{error}");
    }
    let names = files(&directory);
    assert_eq!(names.len(), 6, "{names:?}");
    let fourth = resource.allocate_sync(layout(128 << 20)).unwrap_err();
    let said = format!("no report in {} after the first 3", directory.display());
    assert_eq!(fourth.report(), Some(&*said));
    assert_eq!(files(&directory), names);
    let log = std::fs::read_to_string(directory.join(&names[0])).unwrap();
    assert!(log.contains(",allocate,0x") && log.contains(",activations,"), "{log}");
    free(&resource, block, 4096);
}

#[test]
fn a_report_that_cannot_be_written_leaves_the_error_as_it_is() {
    let directory = directory("no-reports");
    if !runs_here("a_report_that_cannot_be_written_leaves_the_error_as_it_is", &directory) {
        return;
    }
    let _machine = Machine::builder().memory(64 << 20).enter();
    let plain = CudaMemoryResource::new().allocate_sync(layout(128 << 20)).unwrap_err();
    let resource = with_oom_report(AnyResource::new(CudaMemoryResource::new()));
    let error = resource.allocate_sync(layout(128 << 20)).unwrap_err();
    let said = format!("no report in {}: No such file", directory.display());
    assert!(error.report().is_some_and(|report| report.starts_with(&said)), "{error}");
    assert_eq!((error.kind(), error.code()), (plain.kind(), plain.code()));
    assert!(error.to_string().starts_with(&plain.to_string()), "{error}");
}

#[test]
fn sizes_that_no_device_has_are_kept_as_large_ones() {
    let _machine = rmm_sim::enter();
    let recorder = RecorderResourceAdaptor::builder(CudaMemoryResource::new()).events(4).build();
    recorder.allocate_sync(layout((isize::MAX - 1023) as usize)).unwrap_err();
    let rows = written(&recorder);
    assert!(
        rows[0].contains(&format!(",allocate failure,(nil),{},", (1_u64 << 62) - 1)),
        "{rows:?}"
    );
}

#[test]
fn room_for_events_has_a_limit() {
    let _machine = rmm_sim::enter();
    let builder = RecorderResourceAdaptor::builder(CudaMemoryResource::new());
    assert_eq!(builder.events(usize::MAX).build().capacity(), 1 << 24);
}
