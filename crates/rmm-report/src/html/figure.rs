//! A chart with its legend and caption.

use std::fmt::Write as _;

use super::escape::escape;

/// A picture with the words that belong to it.
pub(super) struct Figure {
    /// Markup.
    pub(super) legend: String,
    /// Markup.
    pub(super) svg: String,
    /// Text, not escaped.
    pub(super) caption: String,
}

/// A line of colour swatches with labels; `class` is a class of the style sheet or empty.
pub(super) fn legend<'a>(entries: impl IntoIterator<Item = (&'a str, String, String)>) -> String {
    let mut markup = "<p class=\"legend\">".to_owned();
    for (class, colour, label) in entries {
        let _ = write!(
            markup,
            "<span><i class=\"{class}\" style=\"background:{colour}\"></i>{}</span> ",
            escape(&label)
        );
    }
    markup.push_str("</p>\n");
    markup
}
