//! How far a tuning is.

/// How far a tuning is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps that are done; they do not all take the same time.
    pub done: u64,
    /// All steps.
    pub of: u64,
    /// What is tried.
    pub what: String,
}
