//! Errors with their position in the text.

use std::fmt;

/// The error of a text that is not a valid specification. Displays the message, the line and a mark
/// below the position; a long line is cut around the mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    message: String,
    text: String,
    offset: usize,
}

impl SpecError {
    /// What is wrong, in a line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where: bytes of the text before it.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

/// Characters of the text that are shown before the mark, and from it on.
const SHOWN: usize = 200;

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, text, offset } = self;
        let before = text.get(..*offset).unwrap_or(text).chars().count();
        let first = before.saturating_sub(SHOWN);
        let cut = if first > 0 { "..." } else { "" };
        let mut rest = text.chars().skip(first);
        // One character for one character, so that the mark is where it should be.
        let shown: String =
            rest.by_ref().take(2 * SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let and_more = if rest.next().is_some() { "..." } else { "" };
        // `{:width$}` panics for a width of more than 65,535, which this is below.
        let indent = " ".repeat(cut.len() + before - first);
        write!(f, "{message}\n  {cut}{shown}{and_more}\n  {indent}^")
    }
}

impl std::error::Error for SpecError {}

/// What is wrong, without the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    message: String,
    offset: usize,
}

impl Fault {
    pub(crate) fn at(offset: usize, message: impl Into<String>) -> Self {
        Self { message: message.into(), offset }
    }

    pub(crate) fn in_text(self, text: &str) -> SpecError {
        let Self { message, offset } = self;
        SpecError { message, text: text.to_owned(), offset }
    }
}
