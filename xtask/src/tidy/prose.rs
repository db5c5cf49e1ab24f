//! The width of comments and pages, and words that have a better one in `words.txt`.

use super::files::SourceFile;
use super::finding::Finding;
use crate::error::Result;

const WORDS: &str = include_str!("words.txt");

/// Columns of a comment.
const WIDTH: usize = 100;
/// Columns of a line of code in a documentation example, which rustfmt does not break.
const EXAMPLE_WIDTH: usize = 120;

/// What `words.txt` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules<'a> {
    /// A word, in lower case unless capitals count, and the better one.
    words: Vec<(&'a str, &'a str)>,
    /// The same, in Rust files alone.
    rust_words: Vec<(&'a str, &'a str)>,
    /// Paths that are not searched.
    skipped: Vec<&'a str>,
}

/// Checks all files.
///
/// # Errors
///
/// If a line of `words.txt` means nothing.
pub(super) fn check(files: &[SourceFile]) -> Result<Vec<Finding>> {
    let rules = Rules::read(WORDS)?;
    Ok(files
        .iter()
        .flat_map(|file| [words_in(file, &rules), wide_comments(file)].concat())
        .collect())
}

impl<'a> Rules<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let mut rules = Self::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some((word, better)) = line.split_once(" => ") {
                match word.strip_prefix("rust ") {
                    Some(word) => rules.rust_words.push((word, better)),
                    None => rules.words.push((word, better)),
                }
            } else if let Some((path, _)) = line.strip_prefix("skip ").and_then(split_reason) {
                rules.skipped.push(path);
            } else {
                return Err(format!("xtask/src/tidy/words.txt: {line}").into());
            }
        }
        Ok(rules)
    }

    fn skips(&self, path: &str) -> bool {
        let covers = |skipped: &&str| {
            path == *skipped || (skipped.ends_with('/') && path.starts_with(*skipped))
        };
        self.skipped.iter().any(covers)
    }
}

/// A path and the reason for it, which is not empty.
fn split_reason(text: &str) -> Option<(&str, &str)> {
    text.split_once(": ").filter(|(_, reason)| !reason.trim().is_empty())
}

fn words_in(file: &SourceFile, rules: &Rules<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if rules.skips(&file.path) {
        return findings;
    }
    let rust_words = if file.is_rust() { &rules.rust_words[..] } else { &[] };
    for (index, line) in file.text.lines().enumerate() {
        let lower = line.to_lowercase();
        for &(word, better) in rules.words.iter().chain(rust_words) {
            let text = format!("`{}`: write {better}", word.trim_end_matches('*'));
            let is_exact = word.contains(char::is_uppercase);
            let found = occurrences(if is_exact { line } else { &lower }, word);
            findings.extend((0..found).map(|_| Finding::new(&file.path, index + 1, text.as_str())));
        }
    }
    findings
}

/// How often a phrase stands in a line, as whole words.
fn occurrences(line: &str, word: &str) -> usize {
    let (stem, is_open) = word.strip_suffix('*').map_or((word, false), |stem| (stem, true));
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(stem)
        .filter(|&(start, _)| {
            let (before, after) = (&line[..start], &line[start + stem.len()..]);
            let ends = is_open || !after.starts_with(is_part);
            ends && !before.ends_with(is_part)
        })
        .count()
}

/// Comments, and lines of pages, that are too wide. Exempt is what cannot be broken: rows of
/// tables, lines with a URL, lines without a space to break at, and examples in pages.
fn wide_comments(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let page = file.path.strip_prefix("docs/").and_then(|page| page.strip_suffix(".md"));
    let (start, example_width) = match page {
        _ if file.is_rust() => ("//", EXAMPLE_WIDTH),
        // Reports are generated.
        Some(page) if !page.starts_with("benchmarks/") => ("", usize::MAX),
        _ => return findings,
    };
    let mut is_example = false;
    for (index, line) in file.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix(start) else {
            is_example = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            is_example = !is_example;
        }
        let (width, columns) =
            (if is_example { example_width } else { WIDTH }, line.chars().count());
        let cannot_break =
            comment.starts_with('|') || comment.contains("://") || !comment.contains(' ');
        if columns > width && !cannot_break {
            let text = format!("{columns} columns, {width} are allowed");
            findings.push(Finding::new(&file.path, index + 1, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    //! Words that are found and words that only look alike, and comments at the edge.

    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    const RULES: &str = "# about\n\nskip docs/old/: made\ndepot => cache\nrelic r* => a name\n\
                         rust let _x* => let _y\nThus => so\n";

    #[test]
    fn words_are_found_whole_and_in_any_case() {
        let rules = Rules::read(RULES).unwrap();
        let found = |text| words_in(&file("a.md", text), &rules).len();
        assert_eq!(found("Depot, a (depot) and depot"), 3);
        assert_eq!(found("depots, depositing, the_depot, xdepot"), 0);
        assert_eq!(found("Relic R12 and relic ruins"), 2);
        assert_eq!(words_in(&file("docs/old/a.md", "depot"), &rules), []);
        assert_eq!(words_in(&file("a.rs", "let _xy = 1; let xy = 2"), &rules).len(), 1);
        assert_eq!(found("let _xy = 1;"), 0, "not in Rust");
        assert_eq!(found("Thus, and thus"), 1, "a capital counts");
        let finding = &words_in(&file("a.md", "\ndepot"), &rules)[0];
        assert_eq!(finding.to_string(), "a.md:2: `depot`: write cache");
    }

    #[test]
    fn a_line_that_means_nothing_is_refused() {
        for wrong in ["depot", "skip docs/"] {
            assert!(Rules::read(wrong).is_err(), "{wrong}");
        }
        assert!(!Rules::read(WORDS).unwrap().words.is_empty());
    }

    #[test]
    fn comments_wrap_unless_they_cannot() {
        let wide = "word ".repeat(20);
        let found = |text: &str| wide_comments(&file("a.rs", text)).len();
        assert_eq!(found(&format!("// {}", &wide[..97])), 0, "100 columns");
        assert_eq!(found(&format!("    /// {wide}x")), 1);
        assert_eq!(found(&format!("let x = 1; {wide}{wide}")), 0, "rustfmt's");
        assert_eq!(found(&format!("//! | {wide} | {wide} |")), 0, "a table");
        assert_eq!(found(&format!("// https://{}", "x".repeat(99))), 0, "a URL");
        assert_eq!(found(&format!("/// ```\n/// {wide}{wide}\n/// ```\n/// {wide}x")), 2);
        assert_eq!(found(&format!("/// ```\n/// {}\n/// ```", &wide[..99])), 0, "an example");
        assert!(wide_comments(&file("a.md", &format!("// {wide}{wide}"))).is_empty());
        let page = format!("{wide}x\n```\n{wide}{wide}\n```\n| {wide} | {wide} |\n");
        assert_eq!(wide_comments(&file("docs/a.md", &page)).len(), 1, "a page");
    }
}
