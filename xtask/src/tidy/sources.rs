//! Checks on Rust files: length, module documentation, modules without unsafe code.

use super::files::SourceFile;
use super::finding::Finding;

/// The longest that a file may be: a reader should hold one idea at a time.
const MAX_LINES: usize = 600;

/// Modules that hold the policy of a suballocator: arithmetic on offsets, in which the compiler
/// forbids unsafe code. A name that ends in `/` stands for everything in that folder.
const POLICY_MODULES: [&str; 2] =
    ["crates/rmm-adaptors/src/pool/heap.rs", "crates/rmm-adaptors/src/pool/heap/"];

const FORBIDS_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// All checks on a single file.
pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(check_length(file));
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

/// Checks that the compiler forbids unsafe code in every policy module, and that the list above
/// names real files.
pub(super) fn check_policy_modules(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for module in POLICY_MODULES {
        let mut found = false;
        for file in files.iter().filter(|file| is_named(&file.path, module)) {
            found = true;
            if !forbids_unsafe(file, files) {
                let text = format!(
                    "holds policy: begin it, or a module above it, with `{FORBIDS_UNSAFE}`"
                );
                findings.push(Finding::new(&file.path, 1, text));
            }
        }
        if !found {
            findings.push(Finding::new(
                module,
                1,
                "is listed as a policy module in xtask, but is not there",
            ));
        }
    }
    findings
}

fn is_named(path: &str, module: &str) -> bool {
    path == module || (module.ends_with('/') && path.starts_with(module))
}

/// Whether the file, or a module that contains it, forbids unsafe code: the attribute holds for
/// child modules too.
fn forbids_unsafe(file: &SourceFile, files: &[SourceFile]) -> bool {
    if file.text.lines().any(|line| line == FORBIDS_UNSAFE) {
        return true;
    }
    let Some((folder, _)) = file.path.rsplit_once('/') else { return false };
    let parent =
        if folder.ends_with("/src") { format!("{folder}/lib.rs") } else { format!("{folder}.rs") };
    parent != file.path
        && files.iter().any(|file| file.path == parent && forbids_unsafe(file, files))
}

#[cfg(test)]
#[path = "sources/tests.rs"]
mod tests;
