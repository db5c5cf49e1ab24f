//! `rmm watch`: this process is the one that is watched, or starts one.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use rmm_adaptors::{PoolMemoryResource, monitor};
use rmm_core::Error;
use rmm_report::watch;
use rmm_resources::CudaMemoryResource;
use serde_json::Value;

use super::common::{Folder, keys, program, rmm, text};

fn pool() -> Result<PoolMemoryResource, Error> {
    PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(3 << 20).build()
}

fn own_pid() -> String {
    std::process::id().to_string()
}

#[test]
fn a_program_is_watched() -> Result<(), Box<dyn std::error::Error>> {
    let _machine = rmm_sim::enter();
    let _watched = watch::serve()?;
    let pool = pool()?;
    monitor::register("shown", &pool);

    let output = rmm(&["watch", &own_pid(), "--count", "1"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let table = text(&output.stdout);
    let row = table.lines().find(|line| line.starts_with("shown ")).expect("it has a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["shown", "0", "B", "0", "B", "3.0", "MiB", "3.0", "MiB", "-", "0", "0"]);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(table.contains(&format!("process {}", own_pid())), "{table}");

    let arguments = ["watch", &own_pid(), "--count", "2", "--interval", "0.01", "--json"];
    let output = rmm(&arguments);
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    assert_eq!(lines.len(), 2);
    assert_eq!(keys(&lines[1]), ["pid", "pools", "program", "tags", "time_ms"]);
    let pools = lines[1]["pools"].as_array().expect("a list");
    let shown = pools.iter().find(|pool| pool["pool"] == "shown").expect("it is there");
    assert_eq!((&shown["reserved_bytes"], &shown["device"]), (&(3 << 20).into(), &0.into()));

    let output = rmm(&["watch"]);
    let listed = text(&output.stdout);
    assert!(listed.lines().any(|line| line.trim_start().starts_with(&own_pid())), "{listed}");
    Ok(())
}

#[test]
fn a_page_of_the_heaps_is_written() -> Result<(), Box<dyn std::error::Error>> {
    let _machine = rmm_sim::enter();
    let _watched = watch::serve()?;
    let pool = pool()?;
    monitor::register("on the page", &pool);
    let folder = Folder::new();
    let path = folder.path("heap.html");
    let output = rmm(&["watch", &own_pid(), "--html", &path]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), ""));
    let page = std::fs::read_to_string(&path)?;
    assert!(page.contains("on the page, device 0") && page.trim_end().ends_with("</html>"));
    let output = rmm(&["watch", &own_pid(), "--html", "-"]);
    assert!(text(&output.stdout).starts_with("<!"), "it is printed");
    let output = rmm(&["watch", &own_pid(), "--html", &folder.path("no/heap.html")]);
    assert_eq!(output.status.code(), Some(2));
    Ok(())
}

#[test]
fn what_cannot_be_watched_is_said() {
    // No process has so large a number; the first one is another program.
    for (pid, said) in [("4194305", "there is none"), ("1", "it does not let itself be watched")] {
        let output = rmm(&["watch", pid]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(&format!("process {pid}: {said}")), "{message}");
    }
    for arguments in
        [&["watch", "x"][..], &["watch", "1", "--interval", "0"], &["watch", "--count", "2"]]
    {
        assert_eq!(rmm(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// This file's program: lets itself be watched until its input ends.
fn started() -> Child {
    let path = std::env::current_exe().expect("it has one");
    let mut command = Command::new(path);
    command.args(["--exact", "program_watch::is_watched_until_told", "--ignored", "--nocapture"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("is watched"))));
    child
}

#[test]
#[ignore = "a program that other tests start"]
fn is_watched_until_told() -> Result<(), Box<dyn std::error::Error>> {
    let _watched = watch::serve()?;
    println!("is watched");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

#[test]
fn the_end_of_the_program_is_the_end_of_watching() {
    let mut child = started();
    let mut command = program(&["watch", &child.id().to_string(), "--interval", "600"]);
    let mut watcher = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(watcher.stdout.take().unwrap());
    let mut first = String::new();
    shown.read_line(&mut first).unwrap();
    assert!(first.contains(&format!("process {}", child.id())), "{first}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let output = watcher.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("has ended"), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_has_enough_ends_it() {
    let mut child = started();
    let mut command = program(&["watch", &child.id().to_string(), "--interval", "0.01"]);
    let mut watcher = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(watcher.stdout.take().unwrap());
    shown.read_line(&mut String::new()).unwrap();
    drop(shown);
    assert_eq!(watcher.wait().unwrap().code(), Some(0));
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn what_a_killed_program_left_behind_is_removed() -> Result<(), Box<dyn std::error::Error>> {
    let own = watch::serve()?;
    let mut child = started();
    let pid = child.id();
    let left = own.path().with_file_name(format!("{pid}.sock"));
    assert!(left.exists());
    child.kill().and_then(|()| child.wait())?;
    assert!(left.exists());
    assert!(!watch::watched().contains(&pid));
    // The next program that starts cleans up. This process may be watched by other tests, too.
    let mut next = started();
    assert!(!left.exists());
    drop(next.stdin.take());
    next.wait()?;
    Ok(())
}
