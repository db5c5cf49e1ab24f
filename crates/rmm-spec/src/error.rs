//! What is wrong with a text, and where.

use std::fmt;

/// Why a text describes no stack of resources. Displays as what is wrong, the line, and a mark below the character.
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

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, text, offset } = self;
        // One character for one character, so that the mark is where it should be.
        let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = text.get(..*offset).unwrap_or(text).chars().count();
        write!(f, "{message}\n  {shown}\n  {:before$}^", "")
    }
}

impl std::error::Error for SpecError {}

/// What is wrong, before the text is at hand.
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
