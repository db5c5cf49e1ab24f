//! The kinds of stream that the conformance suite runs on. `xtask` compiles this file, too, and so
//! runs each on a GPU. The resources are in `rmm-spec`'s list of stacks.

/// Calls a macro with the kinds of stream: the name for `RMM_TEST_STREAM`, the variant, and its
/// documentation.
macro_rules! every_stream {
    ($use:ident) => {
        $use! {
            "legacy": Legacy, "The legacy default stream.",
            "per-thread": PerThread, "The per-thread default stream.",
            "non-blocking": NonBlocking, "A stream of this library that does not order itself with the legacy one.",
        }
    };
}
