//! `rmm replay` on the software device: what it prints and writes, and its exit status.

use std::fs;
use std::process::Output;

use serde_json::Value;

use super::common::{Folder, OF_A_RESOURCE, keys, program, rmm, text};

/// Two blocks on two streams, one of which is never freed.
const TINY: &str = "\
    1,00:00:00.000001,allocate,0x100,1000,0\n\
    1,00:00:00.000002,allocate,0x800,300,0x7f01\n\
    1,00:00:00.000003,free,0x100,1000,0\n";

/// More than any device has.
const HUGE: &str = "\
    1,0,allocate,0x100,64,0\n\
    1,0,allocate,0x800,70368744177664,0\n\
    1,0,free,0x800,70368744177664,0\n\
    1,0,free,0x100,64,0\n";

fn replay(args: &[&str]) -> Output {
    rmm(&[&["replay", "--device", "sim"], args].concat())
}

fn succeeds(args: &[&str]) -> Output {
    let output = replay(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    output
}

/// The JSON that a replay writes.
fn json(folder: &Folder, args: &[&str]) -> Value {
    let path = folder.path("out.json");
    let json = format!("--json={path}");
    succeeds(&[args, &[json.as_str()]].concat());
    serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON")
}

#[test]
fn a_replay_prints_a_table_and_says_where_it_ran() {
    let folder = Folder::new();
    let output = succeeds(&[&folder.log("tiny.csv", TINY)]);
    assert!(text(&output.stdout).contains("tiny.csv"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("pool"), "{}", text(&output.stdout));
    let notice = "rmm: on the software device: its times say nothing about a GPU's\n";
    assert_eq!(text(&output.stderr), notice);
    assert_eq!(folder.names(), ["tiny.csv"], "nothing is written unasked");
}

#[test]
fn the_json_has_these_names_and_no_others() {
    let folder = Folder::new();
    let report = json(&folder, &[&folder.log("tiny.csv", TINY), "--repeat", "3"]);
    assert_eq!(keys(&report), ["device", "rmm_version", "software_device", "traces"]);
    assert_eq!(report["software_device"], true);
    let trace = &report["traces"][0];
    assert_eq!(
        keys(trace),
        ["ends_early", "events", "file", "peak_live_bytes", "resources", "streams", "threads"]
    );
    let facts = ["events", "peak_live_bytes", "streams", "threads"].map(|key| trace[key].as_u64());
    assert_eq!(facts, [3, 1536, 2, 1].map(Some));
    let pool = &trace["resources"][0];
    assert_eq!(keys(pool), OF_A_RESOURCE);
    let counts =
        ["events", "failures", "leaked_blocks", "leaked_bytes", "peak_live_bytes", "repeats"]
            .map(|key| pool[key].as_u64());
    assert_eq!(counts, [3, 0, 1, 512, 1536, 3].map(Some));
    assert_eq!(pool["first_failure"], Value::Null);
    assert!(pool["warm_ns_per_op"].as_f64().is_some_and(|nanos| nanos > 0.0));
}

#[test]
fn one_replay_has_no_warm_time() {
    let folder = Folder::new();
    let report = json(&folder, &[&folder.log("tiny.csv", TINY), "--repeat", "1"]);
    let pool = &report["traces"][0]["resources"][0];
    assert_eq!(pool["warm_ns_per_op"], Value::Null);
    assert!(pool["cold_ns_per_op"].as_f64().is_some_and(|nanos| nanos > 0.0));
}

#[test]
fn resources_are_replayed_in_the_order_of_the_command_line() {
    let folder = Folder::new();
    let path = folder.log("tiny.csv", TINY);
    let report = json(&folder, &[&path, "--resource", "pool,cuda-async,cuda"]);
    let resources = report["traces"][0]["resources"].as_array().expect("a list");
    let names: Vec<_> = resources.iter().map(|resource| resource["resource"].as_str()).collect();
    assert_eq!(names, [Some("pool"), Some("cuda-async"), Some("cuda")]);
    for resource in resources {
        assert_eq!(resource["failures"], 0, "{resource}");
        assert!(resource["driver_calls"].as_u64() > Some(0), "{resource}");
        let ratio = &resource["reserved_over_live"];
        assert!(ratio.is_null() || ratio.as_f64() >= Some(1.0), "{resource}");
    }
}

#[test]
fn there_are_no_reserved_bytes_of_a_model() {
    let folder = Folder::new();
    let (log, page) = (folder.log("tiny.csv", TINY), folder.path("report.html"));
    let note = "the software device only models";
    for (resources, named) in [
        ("pool,cuda,pool(cuda-async)", None),
        ("cuda-async,pool", Some("cuda-async")),
        ("statistics(cuda-async)", Some("statistics(cuda-async)")),
        ("fallback(pool(cuda), cuda-async-managed)", Some("fallback")),
        ("fallback(cuda-async, cuda)", Some("fallback")),
    ] {
        let output = succeeds(&[&log, "--resource", resources, "--html", &page]);
        let html = fs::read_to_string(&page).expect("written");
        let printed = text(&output.stdout).replace("\n  ", " ");
        for text in [&printed, &html] {
            let line = text.lines().find(|line| line.contains(note));
            assert_eq!(line.is_some(), named.is_some(), "{resources}: {text}");
            assert!(line.is_none_or(|line| line.contains(named.unwrap_or_default())), "{text}");
        }
        let report = json(&folder, &[&log, "--resource", resources]);
        let first = &report["traces"][0]["resources"][0];
        for figure in ["peak_reserved_bytes", "reserved_over_live"] {
            assert_eq!(first[figure].is_null(), named.is_some(), "{resources}: {first}");
        }
    }
}

#[test]
fn a_report_is_one_page_that_needs_nothing_else() {
    let folder = Folder::new();
    let (log, page) = (folder.log("tiny.csv", TINY), folder.path("report.html"));
    succeeds(&[&log, "--html", &page]);
    assert_eq!(folder.names(), ["report.html", "tiny.csv"]);
    let html = fs::read_to_string(page).expect("written");
    assert!(html.contains(&format!("<title>rmm replay: {log}</title>")), "the title");
    assert!(html.contains("id=\"data\"") && html.trim_end().ends_with("</html>"), "a whole page");
    for outside in ["<link", "<script src", "<img", "@import"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn recorded_threads_may_become_threads() {
    let folder = Folder::new();
    let path = folder.log(
        "threads.csv",
        "7,0,allocate,0x100,1000,0\n9,0,allocate,0x800,1000,1\n9,0,free,0x100,1000,1\n\
         8,0,allocate,0x100,5000,2\n7,0,free,0x800,1000,0\n9,0,free,0x100,5000,0\n",
    );
    for threads in [&[][..], &["--threads", "as-recorded"]] {
        let all = ["--resource", "pool,cuda-async,cuda"];
        let report = json(&folder, &[&[path.as_str()], &all[..], threads].concat());
        let trace = &report["traces"][0];
        assert_eq!((&trace["threads"], &trace["streams"]), (&3.into(), &3.into()));
        for resource in trace["resources"].as_array().expect("a list") {
            assert_eq!((&resource["failures"], &resource["leaked_blocks"]), (&0.into(), &0.into()));
            assert_eq!(resource["events"], 6);
        }
    }
}

#[test]
fn recorded_failures_are_not_repeated() {
    let folder = Folder::new();
    let path = folder.log(
        "failed.csv",
        "1,0,allocate,0x100,64,0\n1,0,allocate failure,(nil),70368744177664,0\n1,0,free,0x100,64,0\n",
    );
    let report = json(&folder, &[&path]);
    let pool = &report["traces"][0]["resources"][0];
    assert_eq!((&pool["events"], &pool["failures"]), (&3.into(), &0.into()));
}

#[test]
fn a_failed_allocation_is_exit_status_1_and_named() {
    let folder = Folder::new();
    let (log, out) = (folder.log("huge.csv", HUGE), folder.path("out.json"));
    let output = replay(&[
        &log,
        "--repeat",
        "2",
        "--resource",
        "pool,cuda-async,cuda",
        &format!("--json={out}"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("line 3"), "{}", text(&output.stdout));
    let report: Value = serde_json::from_slice(&fs::read(out).expect("written")).expect("JSON");
    for resource in report["traces"][0]["resources"].as_array().expect("a list") {
        assert_eq!(resource["failures"], 1, "of one replay: {resource}");
        let first = resource["first_failure"].as_str().unwrap_or_default();
        assert!(first.starts_with("line 3: "), "{resource}");
        assert_eq!(resource["peak_live_bytes"], 256, "what was not had was not live: {resource}");
    }
}

#[test]
fn a_log_may_come_from_standard_input_and_json_go_to_standard_output() {
    let folder = Folder::new();
    let log = folder.log("tiny.csv", TINY);
    let args = ["replay", "--device", "sim", "--repeat", "1", "-", "--json"];
    let input = fs::File::open(&log).expect("a log");
    let output = program(&args).stdin(input).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!(report["traces"][0]["file"], "standard input");
    assert_eq!(report["traces"][0]["events"], 3);

    let page = succeeds(&[&log, "--html", "-"]);
    assert!(text(&page.stdout).starts_with("<!DOCTYPE html>"), "{}", text(&page.stdout));
    for (args, complaint) in [
        (&[log.as_str(), "--json", "--html", "-"][..], "standard output takes --json or --html"),
        (&["-", "-"], "standard input (`-`) can be read once"),
        (&[log.as_str(), "--json", "out.json"], "to write JSON to a file, say --json=out.json"),
    ] {
        let output = replay(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(complaint), "{}", text(&output.stderr));
    }
}

#[test]
fn a_checked_replay_writes_json_and_a_page_too() {
    let folder = Folder::new();
    let (log, page) = (folder.log("tiny.csv", TINY), folder.path("out.html"));
    let output = succeeds(&[&log, "--check", "--json", "--html", &page]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names =
        ["events", "failures", "file", "first_failure", "resource", "stream_waits", "violations"];
    assert_eq!(keys(&found[0]), names);
    let page = fs::read_to_string(page).expect("written");
    assert!(page.contains("nothing is out of order"), "{page}");
}

#[test]
fn a_replay_is_written_for_perfetto() {
    let folder = Folder::new();
    let (log, trace) = (folder.log("tiny.csv", TINY), folder.path("tiny.pftrace"));
    succeeds(&[&log, "--resource", "pool,cuda", "--perfetto", &trace]);
    let written = fs::read(&trace).expect("written");
    let has = |text: &str| written.windows(text.len()).any(|part| part == text.as_bytes());
    for name in ["memory: tiny.csv", "memory: replayed on pool", "memory: replayed on cuda", "held"]
    {
        assert!(has(name), "{name}");
    }
    assert!(has("grows by "));
    for args in [[&log, &log, "--perfetto", &trace], [&log, "--repeat=1", "--perfetto", "-"]] {
        let output = replay(&args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
    }
}

#[test]
fn colours_are_printed_if_they_are_wanted() {
    let folder = Folder::new();
    let log = folder.log("tiny.csv", TINY);
    let has_colour = |args: &[&str]| {
        let output = succeeds(args);
        [&output.stdout, &output.stderr].map(|bytes| text(bytes).contains('\x1b'))
    };
    assert_eq!(has_colour(&[&log]), [false, false], "no terminal");
    assert_eq!(has_colour(&[&log, "--color", "never"]), [false, false]);
    assert_eq!(has_colour(&[&log, "--color=always"]), [true, true]);
}

#[test]
fn bad_input_is_exit_status_2_and_writes_nothing() {
    let folder = Folder::new();
    let good = folder.log("good.csv", TINY);
    let bad = folder.log("bad.csv", "1,0,free,0x10,64,0\n1,0,free,0x10,64,0\n");
    let (json, page) = (folder.path("out.json"), folder.path("out.html"));
    let missing = folder.path("missing.csv");
    for (args, complaint) in [
        (&[good.as_str(), bad.as_str()][..], "bad.csv:3: "),
        (&[missing.as_str(), good.as_str()], "missing.csv"),
        (&[folder.path("").as_str(), good.as_str()], "rmm: "),
    ] {
        let json = format!("--json={json}");
        let output = replay(&[args, &[json.as_str(), "--html", &page]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        let messages = text(&output.stderr);
        assert!(messages.contains(complaint), "{args:?}: {messages}");
        assert_eq!(messages.lines().count(), 1, "{args:?}: {messages}");
        assert_eq!(folder.names(), ["bad.csv", "good.csv"], "{args:?}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_exit_status_2() {
    let folder = Folder::new();
    let log = folder.log("tiny.csv", TINY);
    for (option, out) in [
        ("--json", folder.path("missing/out.json")),
        ("--html", folder.path("missing/out.html")),
        ("--report", folder.path("")),
    ] {
        let output = replay(&[&log, &format!("{option}={out}")]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stdout), "", "nothing was replayed");
        let complaint = format!("rmm: cannot write {out}: ");
        assert!(text(&output.stderr).starts_with(&complaint), "{}", text(&output.stderr));
        assert_eq!(folder.names(), ["tiny.csv"]);
    }
}

#[test]
fn a_log_that_ends_in_the_middle_of_a_line_is_replayed_to_there_without_leaks() {
    let folder = Folder::new();
    let log = folder.log("cut.csv", &format!("{TINY}1,00:00:00.000004,fr"));
    let output = succeeds(&[&log]);
    let out = text(&output.stdout);
    assert!(out.contains(": 3 events") && out.contains("ends before its program"), "{out}");
    assert!(!out.contains("still live"), "{out}");
    let report = json(&folder, &[&log]);
    let trace = &report["traces"][0];
    assert_eq!(trace["ends_early"], true);
    assert_eq!(trace["resources"][0]["leaked_blocks"], 0);

    let whole = succeeds(&[&folder.log("tiny.csv", TINY)]);
    let out = text(&whole.stdout);
    assert!(out.contains("\n1 block (512 B) still live at the end: leaks, unless "), "{out}");
    let bad = folder.log("bad.csv", &format!("{TINY}1,00:00:00.000004,fr\n"));
    assert_eq!(replay(&[&bad]).status.code(), Some(2), "a whole line that is wrong");
}

#[test]
fn a_gpu_that_is_not_there_is_exit_status_2() {
    let folder = Folder::new();
    let log = folder.log("tiny.csv", TINY);
    let output = super::common::program(&["replay", &log, "--device", "0"])
        .env("RMM_CUDA_LIBRARY", "/nonexistent")
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("/nonexistent"), "{}", text(&output.stderr));
}

#[test]
fn a_checked_replay_says_what_is_out_of_order_and_nothing_else() {
    let folder = Folder::new();
    let log = folder.log("tiny.csv", TINY);
    let output =
        succeeds(&[&log, "--check", "--repeat", "2", "--resource", "pool,cuda-async,cuda"]);
    let line = |resource| format!("{log}: {resource}: 3 events 2 times, nothing out of order\n");
    let expected = ["pool", "cuda-async", "cuda"].map(line).concat();
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_checked_replay_counts_what_failed() {
    let folder = Folder::new();
    let output = replay(&[&folder.log("huge.csv", HUGE), "--check", "--repeat", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    assert!(
        out.contains("4 events, not checked: events failed\n  1 failure; the first: line 3: "),
        "{out}"
    );
}

#[test]
fn a_checked_replay_serves_memory_that_the_host_can_access() {
    let folder = Folder::new();
    let log = folder.log("tiny.csv", TINY);
    for spec in
        ["managed", "pinned", "registered", "pool(managed)", "pool(pinned)", "cuda-async-managed"]
    {
        let output = succeeds(&[&log, "--check", "--repeat", "1", "--resource", spec]);
        let expected = format!("{log}: {spec}: 3 events, nothing out of order\n");
        assert_eq!(text(&output.stdout), expected);
    }
}

#[test]
fn a_gpu_cannot_check() {
    let folder = Folder::new();
    let output = rmm(&["replay", "--device", "0", "--check", &folder.log("tiny.csv", TINY)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--check needs the software device"));
}

#[test]
fn a_check_on_a_small_device_lacks_what_does_not_fit() {
    let folder = Folder::new();
    let log = folder.log("big.csv", "1,0,allocate,0x100,67108864,0\n1,0,free,0x100,67108864,0\n");
    let output = succeeds(&[&log, "--check", "--repeat", "1", "--memory", "128MiB"]);
    assert!(text(&output.stdout).contains("nothing out of order"));
    let output = replay(&[&log, "--check", "--repeat", "1", "--memory", "32MiB"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("1 failure"), "{}", text(&output.stdout));
}

/// A limit and a pool of the same size: what the pool would refuse, the limit does.
const STACK: &str = "statistics(limiting(pool(cuda, initial=1MiB, max=8MiB), limit=8MiB))";

#[test]
fn what_a_resource_takes_as_it_is_made_is_reserved() {
    let folder = Folder::new();
    let log = folder.log("tiny.csv", TINY);
    let found =
        json(&folder, &[&log, "--resource", "arena(cuda, size=64MiB),pool(cuda, initial=32MiB)"]);
    let resources = &found["traces"][0]["resources"];
    assert_eq!(resources[0]["peak_reserved_bytes"], 64 << 20);
    assert_eq!(resources[1]["peak_reserved_bytes"], 32 << 20);
}

#[test]
fn a_stack_is_replayed_as_the_command_line_or_the_environment_describes_it() {
    let folder = Folder::new();
    let log = folder.log("tiny.csv", TINY);
    let found = json(&folder, &[&log, "--resource", &format!("pool,{STACK}")]);
    let resources = &found["traces"][0]["resources"];
    assert_eq!(resources[0]["resource"], "pool");
    assert_eq!(resources[1]["resource"], STACK);
    assert_eq!(resources[1]["peak_reserved_bytes"], 1 << 20);
    assert_eq!(resources[1]["peak_live_bytes"], resources[0]["peak_live_bytes"]);

    let args = ["replay", "--device", "sim", "--check", "--repeat", "1", &log];
    let output = program(&args).env("RMM_RESOURCE", STACK).output().expect("it runs");
    let expected = format!("{log}: {STACK}: 3 events, nothing out of order\n");
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));

    let output = program(&args).env("RMM_RESOURCE", "pool(cuda; max=1)").output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("\n  pool(cuda; max=1)\n           ^"), "{error}");
}
