//! A mutant: one change that breaks the program.

use std::borrow::Cow;

use crate::error::Result;

/// A change that breaks the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mutant {
    pub(super) name: &'static str,
    /// Below the workspace's folder.
    pub(super) file: &'static str,
    /// What stands there, once.
    pub(super) original: &'static str,
    /// What stands there instead.
    pub(super) replacement: &'static str,
    /// What is wrong then.
    pub(super) breaks: &'static str,
}

impl Mutant {
    /// The package that it is in.
    pub(super) fn package(&self) -> &'static str {
        self.file.split('/').nth(1).unwrap_or(self.file)
    }

    /// The file's text with the change.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        // A checkout may have other line ends.
        let text = if text.contains('\r') {
            Cow::Owned(text.replace('\r', ""))
        } else {
            Cow::Borrowed(text)
        };
        match text.matches(self.original).count() {
            1 => Ok(text.replacen(self.original, self.replacement, 1)),
            count => Err(format!(
                "mutant {}: {} has {count} times what it replaces: change xtask/src/mutants/list.rs or what is below it together with the code",
                self.name, self.file
            )
            .into()),
        }
    }
}
