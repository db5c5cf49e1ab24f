//! Who allocated a block, or frees it: a stack of the host, or a line of the program where that is
//! in a language whose stack is another.

#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::Arc;

use super::call_site::call_site;
use crate::shared::site::innermost_named;

#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Stack(Arc<Backtrace>),
    Named(Arc<str>),
}

impl Caller {
    /// The caller of the calling thread. Takes microseconds.
    pub(crate) fn now() -> Self {
        match innermost_named() {
            Some(place) => Self::Named(place.into()),
            None => Self::Stack(Arc::new(Backtrace::force_capture())),
        }
    }
}

impl fmt::Display for Caller {
    /// The place. Of a stack it resolves symbols, which takes milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(place) => f.write_str(place),
            Self::Stack(stack) => {
                // Without a current directory, paths are displayed in full.
                let folder = std::env::current_dir().unwrap_or_default();
                f.write_str(&call_site(&stack.to_string(), &folder))
            }
        }
    }
}
