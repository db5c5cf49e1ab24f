//! The return types of tests marked with `#[rmm_sim::test]`.
#![forbid(unsafe_code)]

use std::fmt::Debug;

/// The result of a marked test: nothing, or a `Result` whose error fails the test.
#[doc(hidden)]
pub trait TestOutcome {
    /// # Panics
    /// If the test returned an error.
    fn expect_success(self);
}

impl TestOutcome for () {
    fn expect_success(self) {}
}

impl<E: Debug> TestOutcome for Result<(), E> {
    #[track_caller]
    fn expect_success(self) {
        if let Err(error) = self {
            panic!("the test returned {error:?}");
        }
    }
}
