//! Errors of commands: one line of text for a person.

use std::error::Error;
use std::fmt::Display;

/// What the commands return. The error is shown on one line and ends the program.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Says what was being done when an error came up.
pub(crate) trait Context<T> {
    /// Puts `what` before the error's own text.
    fn context(self, what: impl Display) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl Display) -> Result<T> {
        self.map_err(|error| format!("{what}: {error}").into())
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl Display) -> Result<T> {
        self.ok_or_else(|| what.to_string().into())
    }
}

#[cfg(test)]
mod tests {
    //! The text that a person reads.

    use super::*;

    #[test]
    fn context_comes_before_the_cause() {
        let error = Err::<(), _>("no such file").context("reading README.md").unwrap_err();
        assert_eq!(error.to_string(), "reading README.md: no such file");
        let error = None::<()>.context("no root package").unwrap_err();
        assert_eq!(error.to_string(), "no root package");
    }
}
