//! The paths in a page: each is that of a file or folder. The pages that mdBook leaves out.

use super::finding::Finding;

/// Checks each path in a page, which is text between backticks with a slash and no blank, against
/// `is_there`.
pub(super) fn check(page: &str, text: &str, is_there: impl Fn(&str) -> bool) -> Vec<Finding> {
    let is_path = |word: &&str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
        word.contains('/') && word.chars().all(is_part)
    };
    let lines = text.lines().enumerate();
    let paths = lines.flat_map(|(index, line)| {
        line.split('`').skip(1).step_by(2).filter(is_path).map(move |path| (index + 1, path))
    });
    let missing = paths.filter(|(_, path)| !is_there(path));
    missing
        .map(|(line, path)| Finding::new(page, line, format!("`{path}` is no file or folder")))
        .collect()
}

/// Whether a file is a page of `docs` that mdBook, which reads the summary, leaves out.
pub(super) fn is_left_out(path: &str, summary: &str) -> bool {
    let page = path.strip_prefix("docs/").and_then(|path| path.strip_suffix(".md"));
    page.is_some_and(|page| page != "SUMMARY" && !summary.contains(&format!("({page}.md)")))
}

#[cfg(test)]
mod tests {
    //! Pages with paths.

    use super::*;

    #[test]
    fn a_path_that_is_not_there_is_found() {
        let page = "`a/b.rs` and `no path / of a file`\n| `a/c.rs` | `a::b` |";
        let findings = check("page.md", page, |path| path == "a/b.rs");
        let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["page.md:2: `a/c.rs` is no file or folder"]);
    }

    #[test]
    fn a_page_that_mdbook_leaves_out_is_found() {
        let found = |path| is_left_out(path, "- [A](a.md)\n- [C](c.md)");
        assert!(found("docs/b/c.md") && found("docs/b.md"));
        assert!(!found("docs/a.md") && !found("docs/SUMMARY.md") && !found("crates/d.md"));
    }
}
