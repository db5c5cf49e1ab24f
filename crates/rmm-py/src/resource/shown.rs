//! Resources as text and as HTML.

use std::fmt::Write as _;

use rmm_core::Description;

/// A resource in one line, without those below it. `None` for a bare instance of a base class.
pub(crate) fn first_line(description: Option<Description>) -> Option<String> {
    let text = description?.to_string();
    text.lines().next().map(str::to_owned)
}

/// A resource and those below it as a table.
pub(crate) fn html(description: Option<Description>, class: &str) -> String {
    let mut rows = String::new();
    if let Some(description) = description {
        write_rows(&mut rows, &description, 0);
    }
    let class = escaped(class);
    format!("<table><caption><code>{class}</code></caption><tbody>{rows}</tbody></table>")
}

/// A row for each resource, indented by its depth in the stack.
fn write_rows(rows: &mut String, description: &Description, depth: usize) {
    let name = escaped(description.name());
    let figures: Vec<String> = description
        .metrics()
        .iter()
        .map(|(what, figure)| format!("{}: <b>{}</b>", escaped(what), escaped(&figure.to_string())))
        .collect();
    let figures = figures.join(", ");
    // Writing to a string does not fail.
    let _ignored = write!(
        rows,
        "<tr><td style=\"text-align:left;padding-left:{depth}em\">{name}</td>\
         <td style=\"text-align:left\">{figures}</td></tr>"
    );
    for below in description.below() {
        write_rows(rows, below, depth + 1);
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
