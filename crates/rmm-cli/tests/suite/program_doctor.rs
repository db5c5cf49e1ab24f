//! `rmm doctor`, with no driver and with the software one.

use std::process::Output;

use serde_json::Value;

use super::common::{keys, program, text};

/// Where no driver can be.
const NOWHERE: &str = "/nonexistent";

fn without_driver(args: &[&str]) -> Output {
    program(args).env("RMM_CUDA_LIBRARY", NOWHERE).output().expect("the program runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn that_there_is_no_driver_is_said_and_is_no_failure() {
    let output = without_driver(&["doctor"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    let text = text(&output.stdout);
    assert!(text.starts_with(&format!("rmm {}\n", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("\ndriver: none\n"), "{text}");
    assert!(text.contains(NOWHERE), "it says where it has looked: {text}");
    assert!(text.contains("No GPU can be used here."), "{text}");
}

#[test]
fn that_there_is_no_driver_is_said_in_json() {
    let output = without_driver(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let doctor = json(&output);
    assert_eq!(keys(&doctor), ["devices", "driver", "problems", "rmm_version"]);
    assert_eq!(doctor["driver"], Value::Null);
    assert_eq!(doctor["devices"], Value::Array(Vec::new()));
    let problems = doctor["problems"].as_array().expect("a list");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].as_str().is_some_and(|text| text.contains(NOWHERE)), "{problems:?}");
}

#[test]
fn the_report_is_a_page_too() {
    let page = without_driver(&["doctor", "--html", "-", "--color", "always"]);
    assert_eq!(page.status.code(), Some(0));
    let page = text(&page.stdout);
    assert!(page.contains("<h1>rmm doctor</h1>\n<p>no GPU can be used</p>"), "{page}");
    assert!(page.contains("driver: none") && page.contains(NOWHERE), "{page}");
    assert!(!page.contains('\x1b'), "{page}");
}

#[test]
fn the_software_device_is_a_device() {
    let run = |args: &[&str]| {
        let output = program(args).env("RMM_DRIVER", "sim").output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(text(&output.stderr).contains("RMM_DRIVER=sim"), "{args:?}");
        output
    };
    let doctor = json(&run(&["doctor", "--json"]));
    assert_eq!(doctor["driver"]["cuda_version"], "13.0");
    let devices = doctor["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 1, "{devices:?}");
    assert_eq!(
        keys(&devices[0]),
        ["capabilities", "compute_capability", "free_bytes", "name", "ordinal", "total_bytes"]
    );
    assert_eq!(devices[0]["capabilities"]["memory_pools"], true);
    let table = run(&["doctor"]);
    assert!(text(&table.stdout).contains("Software device"), "{}", text(&table.stdout));
}
