//! The HTML report of `rmm check`, and of other texts.

use std::fmt::Write as _;

use super::document::head;
use super::escape::escape;

/// Renders what a check found as one page: `title` names the program, `verdict` is the result in a
/// few words, and `text` is what the terminal shows.
pub fn render_check(title: &str, verdict: &str, text: &str) -> String {
    let blocks = text.split_inclusive('\n').fold(Vec::<String>::new(), |mut blocks, line| {
        // A finding begins at the margin; its call sites are indented.
        match blocks.last_mut() {
            Some(block) if line.starts_with(' ') => block.push_str(line),
            _ => blocks.push(line.to_owned()),
        }
        blocks
    });
    render(&format!("rmm check: {title}"), verdict, blocks.iter().map(String::as_str))
}

/// Renders a text of the terminal as one page, with a heading and the result in a few words.
pub fn render_text(title: &str, verdict: &str, text: &str) -> String {
    render(title, verdict, text.split("\n\n"))
}

fn render<'a>(title: &str, verdict: &str, blocks: impl Iterator<Item = &'a str>) -> String {
    let blocks = blocks.fold(String::new(), |mut html, block| {
        // Writing to a string does not fail.
        let _ = writeln!(html, "<pre>{}</pre>", escape(block.trim_end()));
        html
    });
    format!(
        "{head}<body>\n<header>\n<h1>{title}</h1>\n<p>{verdict}</p>\n</header>\n<main>\n{blocks}</main>\n\
         </body>\n</html>\n",
        head = head(title, ""),
        title = escape(title),
        verdict = escape(verdict),
    )
}
