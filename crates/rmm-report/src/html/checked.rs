//! The HTML report of `rmm check`.

use std::fmt::Write as _;

use super::STYLE;
use super::escape::escape;

/// Renders what a check found as one page: `title` names the program, `verdict` is the result in a
/// few words, and `text` is what the terminal shows.
pub fn render_check(title: &str, verdict: &str, text: &str) -> String {
    let mut blocks = String::new();
    for block in text.split_inclusive('\n').fold(Vec::<String>::new(), |mut blocks, line| {
        // A finding begins at the margin; its call sites are indented.
        match blocks.last_mut() {
            Some(block) if line.starts_with(' ') => block.push_str(line),
            _ => blocks.push(line.to_owned()),
        }
        blocks
    }) {
        // Writing to a string does not fail.
        let _ = writeln!(blocks, "<pre>{}</pre>", escape(block.trim_end()));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>rmm check: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>rmm check: {title}</h1>\n<p>{verdict}</p>\n{blocks}</body>\n</html>\n",
        title = escape(title),
        verdict = escape(verdict),
    )
}
