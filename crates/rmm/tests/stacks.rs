//! The list of stacks against C's constructors and Python's classes, in both directions: neither
//! has a list of its own that could lack one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rmm_spec::stacks::STACKS;

const HEADER: &str = "../rmm-capi/include/rmm_rs.h";
const STUB: &str = "../../python/rmm_rs/rmm_rs/_rmm.pyi";

/// Stacks that C makes in another way: by a specification `backing`, on which the default pool
/// stands, and `tagged`, since tags are set by scopes, which C lacks; `callback` by
/// `rmm_rs_resource_from_callbacks`.
const NOT_BY_A_CONSTRUCTOR: [&str; 3] = ["backing", "callback", "tagged"];

/// Constructors of C that no specification describes.
const NO_STACK_OF_C: [&str; 4] = [
    // Memory of the host alone.
    "host",
    // Is `pool`, with the device chosen by the library.
    "default-pool",
    // Are no resources.
    "client",
    "stream",
];

/// Classes that are no resource by themselves, or one of a pool, a specification, or a session with
/// an owner.
const NO_STACK_OF_PYTHON: [&str; 4] = ["device", "upstream", "spec", "leased"];

fn text_of(path: &str) -> String {
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the test");
    fs::read_to_string(Path::new(&root).join(path)).expect("the file is there")
}

/// The names of the resources at the top of the stacks, as specifications have them.
fn stacks() -> BTreeSet<String> {
    STACKS.iter().map(|stack| stack.top().to_owned()).collect()
}

/// `CudaAsyncView` as `cuda-async-view`.
fn with_dashes(class: &str) -> String {
    let mut name = String::new();
    for letter in class.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn without(all: &BTreeSet<String>, left_out: &[&str]) -> BTreeSet<String> {
    for name in left_out {
        assert!(all.contains(*name), "`{name}` is left out, but is not there");
    }
    all.iter().filter(|name| !left_out.contains(&name.as_str())).cloned().collect()
}

#[test]
fn each_stack_has_a_constructor_of_c() {
    let header = text_of(HEADER);
    let words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let stem = |word: &str| word.strip_prefix("rmm_rs_")?.strip_suffix("_new").map(str::to_owned);
    let constructors = words.filter_map(stem).map(|name| {
        let name = name.trim_end_matches("_resource").replace('_', "-");
        if name.starts_with("async") { format!("cuda-{name}") } else { name }
    });
    let constructors = constructors.collect();
    assert_eq!(without(&constructors, &NO_STACK_OF_C), without(&stacks(), &NOT_BY_A_CONSTRUCTOR));
}

#[test]
fn each_stack_has_a_class_of_python() {
    let stub = text_of(STUB);
    let names =
        stub.lines().filter_map(|line| line.strip_prefix("class ")?.split(['(', ':']).next());
    let kind = |name: &str| {
        let stem = ["HostMemoryResource", "MemoryResource", "ResourceAdaptor"];
        stem.iter().find_map(|kind| name.strip_suffix(kind)).map(with_dashes)
    };
    let classes = names.filter_map(kind).collect();
    assert_eq!(without(&classes, &NO_STACK_OF_PYTHON), stacks());
}
