//! The program as installs have it: in a folder `bin`, with its library in `lib`.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Command, Output};

use super::check_program::{compiled, library};
use super::common::{Folder, rmm, text};

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).env_remove("RMM_SIM_LIBRARY").output().expect("it runs")
}

#[test]
fn a_check_finds_the_library_of_an_install_and_says_where_it_belongs() {
    let folder = Folder::new();
    for name in ["bin", "lib"] {
        fs::create_dir(folder.path(name)).expect("a folder");
    }
    let installed = folder.path("bin/rmm");
    fs::copy(env!("CARGO_BIN_EXE_rmm"), &installed).expect("copied");
    let output = run(&installed, &["check", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    let remedy =
        format!("install -D -t {} target/release/librmm_sim_driver.so", folder.path("lib"));
    assert!(message.contains("cargo build --release -p rmm-sim-driver"), "{message}");
    assert!(message.contains(&remedy), "{message}");

    fs::copy(library(), folder.path("lib/librmm_sim_driver.so")).expect("copied");
    let Some(program) = compiled(&folder, "pipeline") else { return };
    let output = run(&installed, &["check", "--json", "--", &program]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["verdict"], "the program has errors");
    let race = found["violations"][0].as_str().unwrap_or_default();
    assert!(race.starts_with("race: 4096 bytes"), "{found}");
    assert_eq!(found["program"], serde_json::json!([program]));
}

#[test]
fn there_are_completions_and_man_pages() {
    for (shell, part) in [("bash", "complete -F _rmm"), ("zsh", "#compdef rmm"), ("fish", "-c rmm")]
    {
        let output = rmm(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        assert!(script.contains(part) && script.contains("legacy-stream"), "{shell}: {script}");
    }
    let folder = Folder::new();
    let pages = folder.path("share/man1");
    let output = rmm(&["man", &pages]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    let names = fs::read_dir(&pages).expect("made").count();
    let page = fs::read_to_string(format!("{pages}/rmm-replay.1")).expect("written");
    assert!(names >= 6 && page.contains("Exit statuses:"), "{names} pages: {page}");
    let output = rmm(&["man", &format!("{pages}/rmm.1")]);
    assert_eq!(output.status.code(), Some(2), "a file is no folder");
}
