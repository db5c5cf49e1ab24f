//! `rmm report`, the program.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use super::common::{Folder, HEADER, rmm, text};

/// A program in steps, which keeps one block of this size in each, and fails once.
fn log(kept: u64) -> String {
    let mut log = HEADER.trim_end().to_owned() + ",Tag\n";
    let mut time = 0;
    let mut row = |action: &str, pointer: u64, size: u64, tag: &str| {
        time += 1;
        writeln!(log, "1,00:00:00.{time:06},{action},{pointer:#x},{size},0x7,{tag}").expect("text");
    };
    for step in 1..=100 {
        row("allocate", 1 << 40, 1 << 20, "work");
        row("allocate", step << 20, kept, "cache");
        row("free", 1 << 40, 1 << 20, "work");
    }
    row("allocate failure", 0, 1 << 30, "work");
    (1..=100).for_each(|step| row("free", step << 20, kept, "cache"));
    log
}

fn written(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.path(name);
    fs::write(&path, text).expect("written");
    path
}

#[test]
fn the_questions_are_answered_in_the_terminal() {
    let folder = Folder::new();
    let file = written(&folder, "train.csv", &log(4096));
    let output = rmm(&["report", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout).replace("\n  ", " ").replace('\n', " ");
    for answer in [
        "1.4 MiB in 101 blocks, at event 299, 0.30 ms in.",
        "The first was 1.00 GiB, at event 301, 0.30 ms in, by work; no other failed.",
        "Yes: cache grows steadily by ",
        ", though all of it is freed at the end (",
        "Nothing is left at the end.",
        "rmm tune ",
    ] {
        assert!(told.contains(answer), "{answer}: {told}");
    }
    let longest = text(&output.stdout).lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest <= 80 || file.len() > 60), "{longest:?}");
}

#[test]
fn two_logs_are_compared_and_the_page_holds_both() {
    let folder = Folder::new();
    let before = written(&folder, "before.csv", &log(4096));
    let after = written(&folder, "after.csv", &log(8192));
    let page = folder.path("page.html");
    let output = rmm(&["report", &before, &after, "--html", &page, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answers: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let peaks = [0, 1].map(|index| answers[index]["peak"]["bytes"].as_u64());
    assert_eq!(peaks, [Some((1 << 20) + 409_600), Some((1 << 20) + 819_200)]);
    let page = fs::read_to_string(page).expect("written");
    assert!(page.contains("The peak is 400.0 KiB higher") && page.contains("cache (+400.0 KiB)"));
}

#[test]
fn what_is_no_log_is_named() {
    let folder = Folder::new();
    let file = written(&folder, "no.csv", "nothing\n");
    let output = rmm(&["report", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no.csv"), "{}", text(&output.stderr));
}
