//! Circles that are found, and arrows that make none.

use super::*;

/// The circles of a crate of files with these paths and texts.
fn found<const N: usize>(files: [(&str, &str); N]) -> Vec<String> {
    let file = |(path, text): (&str, &str)| SourceFile {
        path: format!("crates/one/src/{path}"),
        text: text.to_owned(),
    };
    check(&files.map(file)).iter().map(ToString::to_string).collect()
}

#[test]
fn files_that_use_each_other_are_found_over_several_too() {
    let files = [
        ("a.rs", "use std::fmt;\nuse crate::{\n    b::{self, c::X},\n};\n"),
        ("b/c.rs", "pub(crate) use super::super::d::Z;\n"),
        ("b.rs", "pub(crate) mod c;\n"),
        ("d.rs", "use super::a;\n"),
        ("lib.rs", "mod a;\nmod b;\nmod d;\npub use a::A;\npub use b::c::X;\n"),
    ];
    let path = |name| format!("crates/one/src/{name}.rs");
    let circle = ["a", "b/c", "d"].map(path).join(", ");
    let finding = format!("{}:1: these files use each other in a circle: {circle}", path("a"));
    assert_eq!(found(files), [finding]);
}

#[test]
fn a_parent_is_above_a_child_only_if_it_uses_it() {
    let child = ("a/b.rs", "use super::A;\n");
    assert_eq!(found([("a.rs", "mod b;\npub(super) use b::B;\nstruct A;\n"), child]), [""; 0]);
    assert_eq!(found([("a.rs", "mod b;\nuse b::B;\nstruct A;\n"), child]).len(), 1);
}

#[test]
fn tests_and_other_crates_may_use_anything() {
    let below = ("b.rs", "use one::a;\n#[cfg(test)]\nuse crate::a::A;\n    use crate::a::A;\n");
    assert_eq!(found([("a.rs", "use crate::b::B;\n"), below]), [""; 0]);
    let both = "#[cfg(test)]\nuse crate::c::C;\nuse crate::a::A;\n";
    assert_eq!(found([("a.rs", "use crate::b::B;\n"), ("b.rs", both)]).len(), 1);
    assert_eq!(found([("a.rs", "use crate::b::B;\n"), ("b.rs", "use crate::a::A;\n")]).len(), 1);
}

#[test]
fn layers_are_used_from_above_alone() {
    let file = |(path, text): (&str, &str)| SourceFile {
        path: format!("crates/rmm-adaptors/src/{path}"),
        text: text.to_owned(),
    };
    let pool = "use crate::suballocators::pool";
    let files = [
        ("sync.rs", String::new()),
        ("suballocators.rs", String::new()),
        ("suballocators/pool.rs", String::new()),
        ("sync/cell.rs", "use crate::suballocators::pool::heap::Heap;\n".to_owned()),
        ("adaptors/limit.rs", "use crate::sync::cell::Cell;\n".to_owned()),
        ("suballocators/pool/heap.rs", format!("{pool}::caches::A;\n{pool}::values::B;\n")),
        ("suballocators/pool/caches.rs", String::new()),
        ("suballocators/pool/values.rs", String::new()),
        ("suballocators/pool/steps.rs", format!("{pool}::heap::B;\n")),
    ];
    let found = check(&files.each_ref().map(|(path, text)| file((path, text))));
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    let finding =
        |path, what| format!("crates/rmm-adaptors/src/{path}.rs:1: `{what}` is in no layer below");
    let heap = "suballocators::pool::heap";
    let beside = finding("suballocators/pool/heap", "suballocators::pool::caches");
    assert_eq!(found, [finding("sync/cell", heap), beside], "and those that go down are not");
}
