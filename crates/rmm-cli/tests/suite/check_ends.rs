//! `rmm check` of processes that end in every way: it calls no run clean of which it has not seen
//! the end, and loses nothing that was found before.
#![cfg(target_os = "linux")]

use std::process::Stdio;

use super::check_program::{PROGRAMS, checked, compiled, has_python};
use super::common::{Folder, program, text};

/// Ends that run the exit handlers, which finish the report.
const WHOLE: [&str; 2] = ["return", "exit"];
/// Ends that do not.
const CUT: [&str; 7] = ["_exit", "quick_exit", "abort", "segv", "kill", "exec", "exec-other"];

#[test]
fn every_way_to_end_is_clean_only_if_its_end_was_seen() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "ends") else { return };
    for how in WHOLE.into_iter().chain(CUT) {
        for who in ["alone", "child"] {
            let case = format!("{how} {who}");
            let output = checked(&["--no-call-sites"], &[&program, how, who, "wrong"]);
            let found = text(&output.stdout);
            assert_eq!(output.status.code(), Some(3), "{case}: {found}");
            assert!(found.contains("double free"), "{case}: {found}");

            let output = checked(&["--no-call-sites"], &[&program, how, who, "right"]);
            let found = text(&output.stdout);
            let is_whole = WHOLE.contains(&how);
            assert_eq!(output.status.code(), Some(i32::from(!is_whole)), "{case}: {found}");
            let is_named = found.contains("not checked: process ");
            assert_eq!(is_named, !is_whole, "{case}: {found}");
            assert!(found.contains(" 0 violations, 0 leaks"), "{case}: {found}");
        }
    }
}

#[test]
fn workers_of_pythons_multiprocessing_are_checked() {
    if !has_python() {
        return;
    }
    let script = format!("{PROGRAMS}/workers.py");
    // Those that are forked end by `_exit`.
    for (method, status) in [("spawn", 0), ("fork", 1), ("forkserver", 1)] {
        let output = checked(&["--no-call-sites"], &["python3", &script, method, "wrong"]);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{method}: {found}");
        assert_eq!(found.matches("double free").count(), 2, "{method}: {found}");
        let output = checked(&["--no-call-sites"], &["python3", &script, method, "right"]);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(status), "{method}: {found}");
        let unseen = found.matches("not checked: process ").count();
        assert_eq!(unseen, if status == 0 { 0 } else { 2 }, "{method}: {found}");
    }
}

#[test]
fn a_process_that_outlives_the_program_is_not_called_clean() {
    let folder = Folder::new();
    let Some(ends) = compiled(&folder, "ends") else { return };
    for (what, status) in [("wrong", 3), ("right", 1)] {
        let mut command =
            program(&["check", "--no-call-sites", "--", &ends, "running", "child", what]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.spawn().expect("the program runs");
        // The process that lives on ends with this.
        let input = child.stdin.take();
        let output = child.wait_with_output().expect("it ends");
        drop(input);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(status), "{what}: {found}");
        assert!(found.contains("still runs"), "{what}: {found}");
        assert_eq!(found.contains("double free"), what == "wrong", "{found}");
    }
}
