//! The migration pages: each name in a table also occurs in the page's code, which is compiled.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words in the tables that are not names of this library.
const NOT_OURS: [&str; 7] = ["impl", "bytemuck", "Pod", "u8", "usize", "is_power_of_two", "Arc"];

fn pages() -> Vec<PathBuf> {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the test");
    let folder = Path::new(&root).join("../../docs/migrating");
    let entries = fs::read_dir(folder).expect("the pages are there");
    entries.map(|entry| entry.expect("the pages are there").path()).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(move |c| !is_part(c));
    words.filter(|word| word.starts_with(|c: char| !c.is_ascii_digit()))
}

/// The names in the second column of the page's tables, and the words of its code.
fn names_and_code(page: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut names, mut code, mut is_code) = (BTreeSet::new(), BTreeSet::new(), false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            code.extend(words(line));
        } else if let Some(ours) = line.strip_prefix('|').and_then(|row| row.split('|').nth(1)) {
            names.extend(ours.split('`').skip(1).step_by(2).flat_map(words));
        }
    }
    (names, code)
}

#[test]
fn every_name_of_the_tables_is_in_code_that_compiles() {
    let mut found = 0;
    for path in pages() {
        let page = fs::read_to_string(&path).expect("a page is text");
        let (names, code) = names_and_code(&page);
        let is_missing = |name: &&&str| !code.contains(**name) && !NOT_OURS.contains(*name);
        let missing: Vec<_> = names.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", path.display());
        found += names.len();
    }
    assert!(found > 200, "{found} names");
}

#[test]
fn a_name_that_no_code_has_is_found() {
    let page = "| `a` | `B::c`, `d` | e |\n|---|---|---|\n```rust\nB::c();\n```\n| x | - | y |\n";
    let (names, code) = names_and_code(page);
    assert_eq!(names, BTreeSet::from(["B", "c", "d"]));
    assert!(code.contains("c") && !code.contains("d"));
}
