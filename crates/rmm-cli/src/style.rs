//! Colours of the terminal. They are taken out where output is printed and none are wanted.

use anstyle::{AnsiColor, Style};

/// What failed or is out of order.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What deserves a look.
pub(crate) const NOTICE: Style = AnsiColor::Yellow.on_default();
/// What to copy.
pub(crate) const ANSWER: Style = AnsiColor::Green.on_default().bold();
/// Headers.
pub(crate) const HEADER: Style = Style::new().bold();

/// The text in a style.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The text without its styles.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
