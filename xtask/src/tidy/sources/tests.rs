//! Each check on Rust text, failing and passing.

use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

/// What the checks say of a library file with this text.
fn found(text: &str) -> Vec<String> {
    check(&file("crates/a/src/b.rs", text)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_may_have_600_lines_and_no_more() {
    let longest = format!("//! Text.\n{}", "\n".repeat(MAX_LINES - 1));
    assert!(found(&longest).is_empty());
    assert_eq!(
        found(&format!("{longest}\n")),
        ["crates/a/src/b.rs:601: 601 lines, 600 are allowed: split it"]
    );
}

#[test]
fn a_source_file_begins_with_its_module_doc() {
    assert!(found("\n//! Text.\nuse a;\n").is_empty());
    for text in ["", "// Text.\n", "use a;\n//! Text.\n", "/// Text.\nfn f() {}\n"] {
        assert_eq!(found(text).len(), 1, "{text:?}");
    }
    assert!(check(&file("crates/a/tests/t.rs", "fn f() {}\n")).is_empty(), "tests need none");
}

#[test]
fn unsafe_code_in_an_example_has_its_proof() {
    let lines_found = |lines: &[&str]| -> Vec<usize> {
        let doc = format!("    /// {}\n", lines.join("\n    /// "));
        let findings = check_examples(&file("crates/a/src/b.rs", &doc));
        findings.iter().map(|finding| finding.line).collect()
    };
    let proven = ["```", "# // SAFETY: it is.", "let x =", "    unsafe { f() };", "```"];
    assert!(lines_found(&proven).is_empty());
    let of_another = ["// SAFETY: of another.", "```", "# unsafe impl A for B {}", "```"];
    assert_eq!(lines_found(&of_another), [3]);
    let one_of_two = ["// SAFETY: of the first.", "unsafe { f() };", "g(unsafe { f() }); // late"];
    assert_eq!(lines_found(&one_of_two), [3]);
    assert!(check_examples(&file("crates/a/src/b.rs", "unsafe { f() };\n")).is_empty(), "clippy's");
}

#[test]
fn the_policy_module_forbids_unsafe_code() {
    let with = |path, text: &str| check_policy_module(&[file(path, text)]).is_none();
    assert!(with(POLICY_MODULE, &format!("//! T.\n{FORBIDS_UNSAFE}\n")));
    assert!(!with(POLICY_MODULE, &format!("//! T.\n// {FORBIDS_UNSAFE}\n")));
    assert!(
        !with("crates/rmm-adaptors/src/suballocators/pool/other.rs", FORBIDS_UNSAFE),
        "it is not there"
    );
}

#[test]
fn a_name_means_one_type_in_all_crates() {
    let one = file("crates/one/src/block.rs", "pub struct Block<T>(T);\nstruct Own;\n");
    let same = file("crates/one/src/other.rs", "    pub unsafe trait Block {}\n");
    assert!(check_type_names(&[one, same]).is_empty());
    let one = file("crates/one/src/block.rs", "pub struct Block;\n");
    let two = file("crates/two/src/lib.rs", "\npub type Block = u8;\nstruct Own;\n");
    let found = check_type_names(&[one, two]);
    assert_eq!(found.len(), 1);
    let shown = found[0].to_string();
    assert!(shown.starts_with("crates/two/src/lib.rs:2: `Block`"), "{shown}");
    assert!(shown.ends_with("crates/one/src/block.rs"), "{shown}");
}
