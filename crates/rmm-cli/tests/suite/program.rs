//! The program as a process: standard output, standard error and exit status.

use std::process::Stdio;

use super::common::{Folder, program, rmm, text};

#[test]
fn a_bad_log_is_exit_status_2_and_one_line() {
    let folder = Folder::new();
    let path = folder.log("bad.csv", "1,0,free,0x10,64,0\n1,0,free,0x10,64,0\n");
    let output = rmm(&["replay", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    assert_eq!(text(&output.stderr), format!("rmm: {path}:3: frees 0x10, which is not live\n"));
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
    let folder = Folder::new();
    let path = folder.log("log.csv", "1,0,allocate,0x10,64,0\n");
    let notice = "rmm: on the software device: its times say nothing about a GPU's\n";
    for (args, messages) in
        [(&["replay", &path, "--device", "sim"][..], notice), (&["replay", "--help"], "")]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let child =
            program(args).stdout(writer).stderr(Stdio::piped()).spawn().expect("the program runs");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(text(&output.stderr), messages, "{args:?}");
    }
}
