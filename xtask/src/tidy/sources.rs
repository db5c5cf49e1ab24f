//! Checks on Rust files: length, module documentation, modules without unsafe code, proofs in
//! examples, names.

use std::collections::BTreeMap;

use super::files::SourceFile;
use super::finding::Finding;

/// The longest that a file may be: a reader should hold one idea at a time.
const MAX_LINES: usize = 600;

/// The module that holds the policy of a suballocator: arithmetic on offsets, in which the compiler
/// forbids unsafe code, as in the modules below it.
const POLICY_MODULE: &str = "crates/rmm-adaptors/src/suballocators/pool/heap.rs";

const FORBIDS_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// All checks on a single file.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(check_length(file));
    findings.extend(check_examples(file));
    if file.is_in_src() {
        findings.extend(check_module_doc(file));
    }
    findings
}

fn check_length(file: &SourceFile) -> Option<Finding> {
    let lines = file.text.lines().count();
    let text = format!("{lines} lines, {MAX_LINES} are allowed: split it");
    (lines > MAX_LINES).then(|| Finding::new(&file.path, MAX_LINES + 1, text))
}

fn check_module_doc(file: &SourceFile) -> Option<Finding> {
    let first = file.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    (!first.starts_with("//!"))
        .then(|| Finding::new(&file.path, 1, "does not begin with a module doc (`//! ...`)"))
}

/// Checks that each unsafe block and impl of an example in documentation has its proof, which
/// clippy asks for in code only.
fn check_examples(file: &SourceFile) -> Vec<Finding> {
    let (mut unproven, mut findings) = (0, Vec::new());
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) else {
            continue;
        };
        let (code, comment) = doc.split_once("//").unwrap_or((doc, ""));
        if code.trim_start().starts_with("```") {
            unproven = 0;
        }
        // A block may follow its proof after the first lines of its statement.
        unproven -= i32::from(comment.trim_start().starts_with("SAFETY:"));
        if ["unsafe {", "unsafe impl"].iter().any(|word| code.contains(word)) {
            unproven += 1;
            if unproven > 0 {
                let text = "unsafe code in an example without a proof above it (`SAFETY:`)";
                findings.push(Finding::new(&file.path, index + 1, text));
            }
        }
    }
    findings
}

/// Checks that the compiler forbids unsafe code in the policy module.
pub(super) fn check_policy_module(files: &[SourceFile]) -> Option<Finding> {
    let forbids = |file: &SourceFile| {
        file.path == POLICY_MODULE && file.text.lines().any(|line| line == FORBIDS_UNSAFE)
    };
    let text = format!("holds policy: begin it with `{FORBIDS_UNSAFE}`");
    (!files.iter().any(forbids)).then(|| Finding::new(POLICY_MODULE, 1, text))
}

/// Checks that no two crates have a public type of one name: a word means one thing.
pub(super) fn check_type_names(files: &[SourceFile]) -> Vec<Finding> {
    let mut first = BTreeMap::<&str, (&str, &str)>::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.is_in_src()) {
        let Some((of_crate, _)) = file.path.split_once("/src/") else { continue };
        for (index, line) in file.text.lines().enumerate() {
            let Some(name) = type_name(line) else { continue };
            let &mut (known, path) = first.entry(name).or_insert((of_crate, &file.path));
            if known != of_crate {
                let text = format!("`{name}` is a type of another crate too: {path}");
                findings.push(Finding::new(&file.path, index + 1, text));
            }
        }
    }
    findings
}

/// The name of the public type or trait that a line declares.
fn type_name(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let name = kinds.iter().find_map(|kind| item.strip_prefix(kind))?;
    name.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .next()
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
#[path = "sources/tests.rs"]
mod tests;
