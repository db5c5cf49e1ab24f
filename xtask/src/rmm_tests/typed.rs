//! The typed test suites of a checkout, and sources that run them over other fixtures.
//!
//! RMM's suites are templates over a fixture: a header says `TYPED_TEST_SUITE_P(suite)` and
//! `REGISTER_TYPED_TEST_SUITE_P(suite, test..)`, and a source instantiates the suite for a list of
//! fixtures. Any fixture with the members `mr`, `ref` and `stream` will do, so ours does, too.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A typed suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypedSuite {
    /// The name of the template.
    pub(super) name: String,
    /// The namespaces that it is in, outermost first: `rmm::test`; empty if none.
    pub(super) namespace: String,
    /// Below the folder of the tests.
    pub(super) header: PathBuf,
    /// How many tests it has.
    pub(super) tests: usize,
}

/// The suites that a header registers.
pub(super) fn suites(header: &Path, text: &str) -> Vec<TypedSuite> {
    let code = code_of(text);
    let mut found = Vec::new();
    for (start, _) in code.match_indices("REGISTER_TYPED_TEST_SUITE_P") {
        let rest = &code[start..];
        let line = code[..start].rsplit('\n').next().unwrap_or_default();
        let arguments = rest.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let Some((arguments, _)) = arguments else { continue };
        if line.trim_start().starts_with('#') {
            continue;
        }
        let mut words = arguments.split(',').map(str::trim).filter(|word| !word.is_empty());
        let Some(name) = words.next() else { continue };
        found.push(TypedSuite {
            name: name.to_owned(),
            namespace: namespace_of(&code[..start]),
            header: header.to_path_buf(),
            tests: words.count(),
        });
    }
    found
}

/// A source that instantiates the suites of one header for a fixture.
pub(super) fn instantiation(suites: &[TypedSuite], fixture_header: &Path, fixture: &str) -> String {
    let mut text = format!("#include \"{}\"\n", fixture_header.display());
    if let Some(first) = suites.first() {
        let _infallible = writeln!(text, "#include \"{}\"", first.header.display());
    }
    for suite in suites {
        let TypedSuite { name, namespace, .. } = suite;
        let (open, close) = match namespace.as_str() {
            "" => (String::new(), ""),
            namespace => (format!("namespace {namespace} {{\n"), "}\n"),
        };
        let types = format!("::testing::Types<::{fixture}>");
        let _infallible =
            write!(text, "{open}INSTANTIATE_TYPED_TEST_SUITE_P(Ours, {name}, {types});\n{close}");
    }
    text
}

/// The text with comments and literals blanked.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' | '\'' => literal(rest, next),
            _ => 0,
        };
        if length == 0 {
            code.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            code.push(' ');
            rest = &rest[length..];
        }
    }
    code
}

/// The length of a literal. One that does not end on its line is a digit separator, or raw text.
fn literal(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, next) in text.char_indices().skip(1) {
        match next {
            '\n' => return 1,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if next == quote => return index + 1,
            _ => {}
        }
    }
    1
}

/// The namespaces that are open at the end of the code.
fn namespace_of(code: &str) -> String {
    // For each open brace: the namespace that it opens, if it does.
    let mut open: Vec<Option<String>> = Vec::new();
    let mut statement = String::new();
    for next in code.chars() {
        match next {
            '{' => {
                open.push(namespace_head(&statement));
                statement.clear();
            }
            '}' => {
                open.pop();
                statement.clear();
            }
            ';' => statement.clear(),
            _ => statement.push(next),
        }
    }
    open.into_iter().flatten().collect::<Vec<_>>().join("::")
}

/// The name of the namespace whose head this is: `namespace a::b`, `inline namespace c`.
fn namespace_head(statement: &str) -> Option<String> {
    // Lines of the preprocessor may stand before it.
    let code: String = statement
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect::<Vec<_>>()
        .join(" ");
    let (before, name) = code.trim().rsplit_once("namespace ")?;
    let plain = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let is_inline = before.split_whitespace().last() == Some("inline");
    (!name.trim().is_empty() && !is_inline && name.trim().chars().all(plain))
        .then(|| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    //! Headers as they are written.

    use super::*;

    const HEADER: &str = r#"
// REGISTER_TYPED_TEST_SUITE_P(commented, Out);
#pragma once
#include <x>
namespace rmm {
struct a { int b{}; };
namespace test { /* } */
inline char const* text() { return "}"; }
inline namespace v1 {}
template <typename T> struct suite : public T {};
TYPED_TEST_SUITE_P(suite);
TYPED_TEST_P(suite, One) { if (true) { } }
REGISTER_TYPED_TEST_SUITE_P(suite,
                            One,  // first
                            Two);
} }  // namespace
REGISTER_TYPED_TEST_SUITE_P(outside, Three);
"#;

    #[test]
    fn suites_are_found_with_their_namespaces() {
        let header = Path::new("mr/suite.hpp");
        let found = suites(header, HEADER);
        let suite = |name: &str, namespace: &str, tests| TypedSuite {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            header: header.to_path_buf(),
            tests,
        };
        assert_eq!(found, [suite("suite", "rmm::test", 2), suite("outside", "", 1)]);
    }

    #[test]
    fn an_instantiation_stands_in_the_namespace_of_its_suite() {
        let found = suites(Path::new("mr/suite.hpp"), HEADER);
        let text = instantiation(&found, Path::new("/ours/fixtures.hpp"), "ours::alone");
        let expected = "\
#include \"/ours/fixtures.hpp\"
#include \"mr/suite.hpp\"
namespace rmm::test {
INSTANTIATE_TYPED_TEST_SUITE_P(Ours, suite, ::testing::Types<::ours::alone>);
}
INSTANTIATE_TYPED_TEST_SUITE_P(Ours, outside, ::testing::Types<::ours::alone>);
";
        assert_eq!(text, expected);
    }

    #[test]
    fn macros_that_name_the_macro_register_nothing() {
        let text = "#define R(s) REGISTER_TYPED_TEST_SUITE_P(s, A)\n";
        assert_eq!(suites(Path::new("x.hpp"), text), []);
    }

    #[test]
    fn digit_separators_open_no_literal() {
        let text = "namespace n {\nint i = 1'000;\nREGISTER_TYPED_TEST_SUITE_P(s, A);\n}";
        assert_eq!(suites(Path::new("x.hpp"), text)[0].namespace, "n");
    }
}
