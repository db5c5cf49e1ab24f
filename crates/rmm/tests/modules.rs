//! The facade's modules: every public item of the parts is in one of them, and the root stays
//! small. And the other places that name each resource: CONTRIBUTING.md has the list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Upper bound on items in the root, not counting modules.
const MOST_IN_ROOT: usize = 60;

/// Items that are public for sister crates and macros only.
const PLUMBING: [&str; 18] = [
    "AnnouncedStream",
    "AsDyn",
    "Contains",
    "DeadlineWake",
    "NameFrames",
    "NamedExport",
    "NumberFrames",
    "PropertySet",
    "PropertySink",
    "RetiringStream",
    "SatisfiedBy",
    "StreamWatcher",
    "WritePage",
    "ask_again",
    "last_deadline_wake",
    "name_frames_by",
    "synchronize_unless_captured",
    "write_pages_by",
];

/// Places that name the resources and adaptors of a part (of both, if there is none), and those
/// that they leave out.
const PLACES: [(&str, &str, &[&str]); 8] = [
    ("", "../../CHANGELOG.md", &[]),
    ("", "../../docs/migrating", &[]),
    // No text describes a function, memory of the host alone, or a subscriber.
    ("", "../rmm-spec/src", &["Callback", "Host", "Tracing"]),
    ("", "../rmm-capi/src", &["Callback", "Tagged", "Tracing"]),
    ("", "../rmm-py/src", &["Host", "Tracing"]),
    ("rmm-resources", "../rmm-resources/tests/suite/every.rs", &[]),
    ("rmm-resources", "../rmm-conformance/tests/gpu/exit/resources.rs", &[]),
    // Those of fixed sizes, and one that is behind a feature.
    ("rmm-adaptors", ADAPTOR_STACKS, &["Binning", "FixedSize", "Tracing"]),
];

const ADAPTOR_STACKS: &str = "../rmm-adaptors/tests/suite/adaptors/stacks.rs";

fn file(path: &str) -> PathBuf {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the test");
    Path::new(&root).join(path)
}

/// The last names of all `pub use` declarations of a source file.
fn reexports(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for declaration in source.split("pub use ").skip(1) {
        let (path, _) = declaration.split_once(';').expect("a declaration ends");
        let path = path.rsplit(" as ").next().expect("a part");
        let last = path.split("::").last().expect("a path has a last part");
        let words = last.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
    }
    names
}

fn reexports_of(path: &str) -> BTreeSet<String> {
    reexports(&fs::read_to_string(file(path)).expect("the file is there"))
}

fn modules() -> impl Iterator<Item = PathBuf> {
    let folders = ["src", "src/mr"].into_iter();
    let files =
        folders.flat_map(|folder| fs::read_dir(file(folder)).expect("the sources are there"));
    let paths = files.map(|entry| entry.expect("the sources are there").path());
    paths.filter(|path| path.is_file() && !path.ends_with("lib.rs"))
}

#[test]
fn every_item_of_the_parts_is_in_a_module() {
    let mut found = BTreeSet::new();
    for module in modules() {
        found.extend(reexports(&fs::read_to_string(module).expect("it is text")));
    }
    for part in ["rmm-core", "rmm-resources", "rmm-adaptors", "rmm-containers", "rmm-spec"] {
        let items = reexports_of(&format!("../{part}/src/lib.rs"));
        let is_missing = |name: &&String| {
            let is_crate_or_plumbing = ["bytemuck", "half", "bytes_of_unit"]
                .contains(&name.as_str())
                || PLUMBING.contains(&name.as_str());
            !found.contains(*name) && !is_crate_or_plumbing
        };
        let missing: Vec<_> = items.iter().filter(is_missing).collect();
        assert!(missing.is_empty(), "{part}: {missing:?}");
    }
    assert!(found.len() > 150, "{} items", found.len());
}

#[test]
fn the_module_of_resources_holds_little_beside_them() {
    let beside = reexports_of("src/mr.rs");
    let is_other = |name: &&String| !name.ends_with("Resource") && !name.ends_with("Adaptor");
    let others: Vec<_> = beside.iter().filter(is_other).collect();
    assert_eq!(others, ["default_pool"]);
    assert!(beside.len() <= 31, "{} items", beside.len());
}

#[test]
fn the_root_holds_what_a_first_program_names() {
    let source = fs::read_to_string(file("src/lib.rs")).expect("the file is there");
    let (root, _) = source.split_once("pub mod prelude").expect("it has a prelude");
    let items = reexports(root);
    assert!(items.len() <= MOST_IN_ROOT, "{} items in the root: {items:?}", items.len());
    let is_glob = |line: &&str| line.starts_with("pub use") && line.contains('*');
    assert_eq!(root.lines().find(is_glob), None, "items are named one by one");
}

/// The text of a file, or of all files in a folder.
fn text_of(path: &Path) -> String {
    match fs::read_dir(path) {
        Ok(files) => files.map(|entry| text_of(&entry.expect("it is there").path())).collect(),
        Err(_) => fs::read_to_string(path).expect("it is text"),
    }
}

#[test]
fn each_resource_is_named_in_all_places() {
    for (part, place, left_out) in PLACES {
        let text = text_of(&file(place));
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        let parts =
            ["rmm-resources", "rmm-adaptors"].into_iter().filter(|name| name.starts_with(part));
        let items = parts.flat_map(|part| reexports_of(&format!("../{part}/src/lib.rs")));
        let is_missing = |name: &String| {
            let kind = ["MemoryResource", "ResourceAdaptor"];
            let short = kind.iter().find_map(|kind| name.strip_suffix(kind));
            short.is_some_and(|short| left_out.contains(&short) == words.contains(name.as_str()))
        };
        let missing: Vec<String> = items.filter(is_missing).collect();
        assert!(missing.is_empty(), "{place} lacks these, or has what is left out: {missing:?}");
    }
}
