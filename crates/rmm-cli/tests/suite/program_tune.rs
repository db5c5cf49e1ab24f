//! `rmm tune` on small logs whose answers are known, and on a recorded program.

use std::fs;
use std::process::Output;

use rmm_cli::device::OpenDevice;
use rmm_cli::laboratory::GpuLaboratory;
use rmm_report::replay::ReplayOptions;
use rmm_report::trace;
use rmm_report::tune::{self, Configuration};
use serde_json::Value;

use super::common::{Folder, HEADER, gzip, keys, program, rmm, text};

/// One block of 100 MiB at a time.
const SIMPLE: &str = "\
    1,0,allocate,0x100,104857600,0\n\
    1,0,free,0x100,104857600,0\n\
    1,0,allocate,0x100,104857600,0\n\
    1,0,free,0x100,104857600,0\n";

/// Blocks of 64 MiB, each freed on one stream before the next is allocated on another: if work is
/// done at once, the same memory serves all.
fn streams() -> String {
    let turn = |turn: u32| {
        let stream = turn % 4 + 2;
        format!(
            "1,0,allocate,0x100,67108864,{stream}\n1,0,allocate,0x9000000,1000,{stream}\n\
             1,0,free,0x100,67108864,{stream}\n1,0,free,0x9000000,1000,{stream}\n"
        )
    };
    (0..40).map(turn).collect()
}

fn tuned(args: &[&str]) -> Output {
    rmm(&[&["tune"], args].concat())
}

fn json(args: &[&str]) -> Value {
    let output = tuned(&[args, &["--json"]].concat());
    assert_eq!(text(&output.stderr), "", "{args:?}");
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else")
}

#[test]
fn one_block_needs_its_own_bytes() {
    let folder = Folder::new();
    let log = folder.log("simple.csv", SIMPLE);
    let output = tuned(&[&log]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert!(out.contains("\nIt runs in 100.0 MiB, 1.00 times its peak, with this "), "{out}");
    assert!(out.contains("max=100MiB"), "{out}");
    assert!(out.contains("\nIn 98.0 MiB, 2 % less, it does not: line 2: out of memory"), "{out}");
    assert!(out.contains("Python   rmm_rs.mr.SpecMemoryResource(text)"), "{out}");
    for line in out.lines().filter(|line| !line.contains(&log)) {
        assert!(line.chars().count() <= 80, "{line:?} in\n{out}");
    }
}

#[test]
fn the_json_has_the_memory_and_the_resource() {
    let folder = Folder::new();
    let found = json(&[&folder.log("simple.csv", SIMPLE)]);
    assert_eq!(keys(&found), ["device", "logs", "memory_bytes", "resource", "rmm_version"]);
    assert_eq!(found["memory_bytes"], 100 << 20);
    let resource = found["resource"].as_str().expect("a text");
    assert!(resource.parse::<rmm_spec::ResourceSpec>().is_ok(), "{resource}");
    let log = &found["logs"][0];
    assert_eq!(
        (&log["memory_bytes"], &log["resource"]),
        (&found["memory_bytes"], &found["resource"])
    );
    assert_eq!(log["less"]["memory_bytes"], 98 << 20);
    assert_eq!(log["peak_live_bytes"], 100 << 20);
    let configurations = log["configurations"].as_array().expect("a list");
    assert_eq!(configurations.len(), 9);
    let names = [
        "at_once_memory_bytes",
        "configuration",
        "curve",
        "driver_calls",
        "failure",
        "memory_bytes",
        "reserved_bytes",
        "template",
        "waits",
        "when_waited_for_memory_bytes",
    ];
    assert_eq!(keys(&configurations[0]), names);
    let names = ["driver_calls", "memory_bytes", "reserved_bytes", "waits"];
    assert_eq!(keys(&configurations[0]["curve"][0]), names);
}

#[test]
fn the_line_runs_where_it_is_copied_to_and_not_with_less() {
    let folder = Folder::new();
    let log = folder.log("streams.csv", &streams());
    let found = json(&[&log]);
    let (resource, memory) = (&found["resource"], &found["memory_bytes"]);
    let (resource, memory) = (resource.as_str().expect("text"), memory.as_u64().expect("bytes"));
    let replay = |resource: &str| {
        rmm(&["replay", "--device", "sim", "--repeat", "1", &log, "--resource", resource])
    };
    let output = replay(resource);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let less =
        resource.replace(&(memory >> 20).to_string(), &((memory >> 20) * 98 / 100).to_string());
    assert_ne!(less, resource);
    assert_eq!(replay(&less).status.code(), Some(1), "{less}");
    // Each block waits for the stream that had the memory before.
    assert_eq!(found["logs"][0]["waits"], 39);
}

#[test]
fn a_given_memory_fits_or_what_would_do_is_said() {
    let folder = Folder::new();
    let log = folder.log("simple.csv", SIMPLE);
    let output = tuned(&[&log, "--memory", "1GiB"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert!(out.contains("It fits into 1,024.0 MiB"), "{out}");
    let arena = out.lines().find(|line| line.starts_with("arena")).expect("it was tried");
    let cells: Vec<&str> = arena.split_whitespace().collect();
    assert_eq!(cells[..5], ["arena", "1,024.0", "fits", "fits", "0"]);

    let output = tuned(&[&log, "--memory", "64MiB"]);
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    assert!(out.contains("Nothing that was tried fits into 64.0 MiB."), "{out}");
    assert!(out.contains("It would run in 100.0 MiB"), "{out}");
    let found = json(&[&log, "--memory", "64MiB"]);
    assert_eq!(found["memory_bytes"], Value::Null);
    assert_eq!(found["logs"][0]["least"]["memory_bytes"], 100 << 20);
}

#[test]
fn only_the_resources_that_are_named_are_tried() {
    let folder = Folder::new();
    let log = folder.log("simple.csv", SIMPLE);
    let tried = "pool(cuda, max={memory})";
    let found = json(&[&log, "--resource", tried]);
    assert_eq!(found["logs"][0]["configurations"].as_array().map(Vec::len), Some(1));
    assert_eq!(found["resource"], "pool(cuda, max=100MiB)");
    // Without a place for the memory, the device is what is small.
    let found = json(&[&log, "--resource", "pool(cuda)"]);
    assert_eq!(
        (&found["memory_bytes"], &found["resource"]),
        (&(100 << 20).into(), &"pool(cuda)".into())
    );
}

#[test]
fn each_log_and_each_device_is_tuned() {
    let folder = Folder::new();
    let rows = "1,0,allocate,0x100,52428800,0,0\n1,0,allocate,0x10000000,10485760,0,3\n";
    let two = folder.path("devices.csv");
    let header = HEADER.trim_end();
    fs::write(&two, gzip(format!("{header},Device\n{rows}").as_bytes())).expect("written");
    let found = json(&[&folder.log("simple.csv", SIMPLE), &two]);
    let logs = found["logs"].as_array().expect("a list");
    let memory: Vec<_> =
        logs.iter().map(|log| (&log["recorded_device"], log["memory_bytes"].as_u64())).collect();
    let mib = |mib: u64| Some(mib << 20);
    assert_eq!(memory, [(&Value::Null, mib(100)), (&0.into(), mib(50)), (&3.into(), mib(10))]);
    assert_eq!(found["memory_bytes"], 100 << 20, "that of the log that needs most");
    let out = tuned(&[&two]);
    assert!(text(&out.stdout).contains("devices.csv, device 3: 1 event"), "{}", text(&out.stdout));
}

#[test]
fn a_log_that_begins_in_the_middle_counts_what_was_live_before() {
    let folder = Folder::new();
    let rows = format!("{SIMPLE}1,0,free,0x7000,52428800,0\n");
    let found = json(&[&folder.log("middle.csv", &rows)]);
    assert_eq!(found["logs"][0]["peak_live_bytes"], 150 << 20);
    assert_eq!(found["memory_bytes"], 150 << 20);
}

#[test]
fn what_failed_when_it_was_recorded_is_said() {
    let folder = Folder::new();
    let rows = format!("{SIMPLE}1,0,allocate failure,(nil),1073741824,0\n");
    let output = tuned(&[&folder.log("failed.csv", &rows)]);
    assert_eq!(output.status.code(), Some(0));
    let out = text(&output.stdout).replace("\n  ", " ");
    assert!(out.contains("1 failed request when the log was recorded, not repeated here"), "{out}");
}

#[test]
fn bad_input_and_usage_are_exit_status_2() {
    let folder = Folder::new();
    let log = folder.log("simple.csv", SIMPLE);
    let empty = folder.log("nothing.csv", "1,0,allocate failure,(nil),64,0\n");
    for (args, complaint) in [
        (&[empty.as_str()][..], "nothing.csv: no request got memory"),
        (&[folder.path("missing.csv").as_str()], "missing.csv"),
        (&[log.as_str(), "--resource", "pol({memory})"], "pol"),
        (&[log.as_str(), "--memory", "0"], "the device needs some memory"),
        (&[log.as_str(), "--html", "/nowhere/page.html"], "cannot write /nowhere/page.html"),
        (&[], "required arguments were not provided"),
    ] {
        let output = tuned(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert!(text(&output.stderr).contains(complaint), "{args:?}: {}", text(&output.stderr));
    }
    let output = program(&["tune", &log, "--device", "0"])
        .env("RMM_CUDA_LIBRARY", "/nonexistent")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_no_device_can_hold_runs_nowhere() {
    let folder = Folder::new();
    let rows = "1,0,allocate,0x100,4611686018427387904,0\n";
    let output = tuned(&[&folder.log("huge.csv", rows)]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let out = text(&output.stdout);
    assert!(
        out.contains("It runs in no memory that was tried.\ncompact pool: this system"),
        "{out}"
    );
}

#[test]
fn on_a_gpu_the_configuration_is_what_is_small() {
    // The software device in place of a GPU: its memory stays what it is.
    let machine = rmm_sim::Machine::builder().memory(4 << 30).build();
    let device = OpenDevice::on_machine(&machine);
    let laboratory = GpuLaboratory::new(&device, ReplayOptions::default());
    let folder = Folder::new();
    let trace = trace::read(folder.log("simple.csv", SIMPLE).as_ref()).expect("a log");
    let tuning = tune::tune(&laboratory, &trace, &Configuration::ours(), None, &|_| ());
    let tuning = tuning.expect("it can be tuned");
    let answer = tuning.answer.expect("it runs");
    assert_eq!(answer.resource, "pool(virtual, max=100MiB, preset=compact)");
    assert!(answer.less.is_some() && tuning.at_once.is_none(), "there is one pace");
}

#[test]
fn the_page_is_one_file_that_needs_nothing_else() {
    let folder = Folder::new();
    let (log, page) = (folder.log("simple.csv", SIMPLE), folder.path("tune.html"));
    let output = tuned(&[&log, "--html", &page]);
    assert_eq!(output.status.code(), Some(0));
    let html = fs::read_to_string(page).expect("written");
    assert!(html.contains("It runs in <b>100.0 MiB</b>") && html.ends_with("</html>\n"), "{html}");
    for outside in ["<script", "<link", "src=", "@import", "http"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn a_recorded_program_of_six_streams_needs_less_if_its_work_is_done_at_once() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/traces/etl-streams.csv.gz");
    let resource = "pool(virtual, max={memory}, preset=compact)";
    let found = json(&[log, "--resource", resource]);
    let log_found = &found["logs"][0];
    let bytes = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("bytes in {found}"));
    let (memory, peak) = (bytes(&found["memory_bytes"]), bytes(&log_found["peak_live_bytes"]));
    let at_once = bytes(&log_found["at_once"]["memory_bytes"]);
    assert_eq!(peak, 233_004_544);
    assert!(peak <= at_once && at_once < memory && memory <= peak / 10 * 14, "{found}");
    assert!(log_found["less"]["failure"].is_string(), "{found}");

    let given = (memory >> 20).to_string() + "MiB";
    let output = tuned(&[log, "--resource", resource, "--memory", &given]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}
