//! The program itself: what goes where, and its exit status.

use std::fs;
use std::process::{Command, Output, Stdio};

use super::common::HEADER;

fn rmm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rmm")).args(args).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn a_bad_log_is_exit_status_2_and_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bad.csv");
    fs::write(&path, format!("{HEADER}1,0,free,0x10,64,0\n")).expect("written");
    let path = path.to_str().expect("UTF-8");
    let output = rmm(&["replay", path]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    assert_eq!(text(&output.stderr), format!("rmm: {path}:2: frees 0x10, which is not live\n"));
}

#[test]
fn bad_usage_is_exit_status_2() {
    for args in [&["replay"][..], &["replay", "a.csv", "--device", "gpu"], &["record"], &[]] {
        let output = rmm(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log.csv");
    fs::write(&path, format!("{HEADER}1,0,allocate,0x10,64,0\n")).expect("written");
    for args in [&["replay", path.to_str().expect("UTF-8")][..], &["replay", "--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let child = Command::new(env!("CARGO_BIN_EXE_rmm"))
            .args(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(text(&output.stderr), "", "{args:?}");
    }
}
