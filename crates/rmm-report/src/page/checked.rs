//! The HTML report of `rmm check`.

use std::fmt::Write as _;

use super::document::head;
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
    let title = format!("rmm check: {title}");
    format!(
        "{head}<body>\n<header>\n<h1>{title}</h1>\n<p>{verdict}</p>\n</header>\n<main>\n{blocks}</main>\n\
         </body>\n</html>\n",
        head = head(&title, ""),
        title = escape(&title),
        verdict = escape(verdict),
    )
}
