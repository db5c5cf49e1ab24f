//! Who allocated a block, or frees it: a stack of the host, or a line of the program where that is
//! in a language whose stack is another.

#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;

use super::call_site::call_site;
use crate::shared::site::named_stack;

/// The most frames of a stack in another language.
const FRAMES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Stack(Arc<Backtrace>),
    /// A line for each frame, the innermost first.
    Named(Arc<str>),
}

impl Caller {
    /// The caller of the calling thread: in another language its innermost line alone. Takes
    /// microseconds.
    pub(crate) fn now() -> Self {
        Self::with_frames(1)
    }

    /// The caller of the calling thread with its stack. Takes some microseconds.
    pub(crate) fn with_stack() -> Self {
        Self::with_frames(FRAMES)
    }

    fn with_frames(most: usize) -> Self {
        match named_stack(most) {
            Some(lines) => Self::Named(lines.into()),
            None => Self::Stack(Arc::new(Backtrace::force_capture())),
        }
    }
}

impl fmt::Display for Caller {
    /// The place. Of a stack it resolves symbols, which takes milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(lines) => f.write_str(lines.lines().next().unwrap_or_default()),
            Self::Stack(stack) => {
                // Without a current directory, paths are displayed in full.
                let folder = std::env::current_dir().unwrap_or_default();
                f.write_str(&call_site(&stack.to_string(), &folder))
            }
        }
    }
}
