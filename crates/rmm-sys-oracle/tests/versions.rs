//! The first CUDA version of each function, compared with the conditions in the oracle's source.
//!
//! Its bindings for all versions are one file in which a function that some versions lack stands
//! under a `#[cfg(any(feature = "cuda-12020", ...))]`. The compiled crate has only one version, so
//! the file is read.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

use rmm_sys::SYMBOLS;

/// The newest version in the oracle, which every function that we use still has to be in.
const NEWEST: u32 = 13_040;

/// A function that is gone from newer headers. Their drivers still export it.
const OLDER_FORM: &str = "cuEventElapsedTime";

/// The oracle's source file, found through cargo; `None` where the test runs without it.
fn source() -> Option<String> {
    let cargo = std::env::var_os("CARGO")?;
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--manifest-path"])
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    let oracle = packages
        .iter()
        .find(|package| package["name"] == "cudarc")
        .expect("the oracle is a dependency");
    let manifest =
        PathBuf::from(oracle["manifest_path"].as_str().expect("a package has a manifest"));
    let file = manifest.with_file_name("src").join("driver/sys/mod.rs");
    Some(std::fs::read_to_string(file).expect("the oracle was built from this file"))
}

/// The versions in a line of conditions, as numbers such as 12020 for CUDA 12.2.
fn versions(condition: &str) -> Vec<u32> {
    condition
        .split("\"cuda-")
        .skip(1)
        .map(|rest| rest[..5].parse().expect("a version has five digits"))
        .collect()
}

/// The versions of every function in `source`; an empty list stands for all.
fn functions(source: &str) -> HashMap<&str, Vec<u32>> {
    let mut functions = HashMap::new();
    let mut condition = "";
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("pub unsafe fn ") {
            let name = &rest[..rest.find('(').expect("a function has arguments")];
            functions.insert(name, versions(condition));
        }
        condition = if line.starts_with("#[cfg(any(feature") { line } else { "" };
    }
    functions
}

/// `"12.2"` as 12020.
fn number(version: &str) -> u32 {
    let (major, minor) = version.split_once('.').expect("a version has two parts");
    let part = |text: &str| text.parse::<u32>().expect("a version has numbers");
    part(major) * 1000 + part(minor) * 10
}

#[test]
fn functions_are_there_since_the_version_that_we_say() {
    let Some(source) = source() else {
        println!(
            "skipped: this test was not started by cargo, so the oracle's source cannot be found"
        );
        return;
    };
    let functions = functions(&source);
    let conditional = functions.values().filter(|versions| !versions.is_empty()).count();
    assert!(functions.len() > 400 && conditional > 100, "the oracle's source was not understood");
    for (name, _, since) in SYMBOLS {
        let versions = functions.get(name).unwrap_or_else(|| panic!("the oracle has no {name}"));
        let (first, last) = match versions[..] {
            [] => (0, NEWEST),
            [first, .., last] => (first, last),
            [only] => (only, only),
        };
        // 12.0 is the oldest that we support, and stands for everything before it.
        assert_eq!(number(since), first.max(12_000), "{name} is said to be there since {since}");
        assert_eq!(last == NEWEST, *name != OLDER_FORM, "{name} was last in {last}");
    }
}

#[test]
fn conditions_are_read() {
    let text = "#[cfg(any(feature = \"cuda-12020\", feature = \"cuda-13000\"))]\npub unsafe fn new(a: u8) {}\n\
                pub unsafe fn old(a: u8) {}\n";
    let read = functions(text);
    assert_eq!((&read["new"][..], &read["old"][..]), (&[12_020, 13_000][..], &[][..]));
}
