//! Who allocated a block, or frees it: a stack of the host, or a line of the program where that is
//! in a language whose stack is another.

#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::call_site::call_site;

/// Returns the place in the program that the calling thread is at, if the thread runs code of that
/// language.
type NameCaller = fn() -> Option<String>;

static NAME_CALLER: OnceLock<NameCaller> = OnceLock::new();

/// Has callers named by a function, for bindings to another language: it returns the place in the
/// program that the calling thread is at, if the thread runs code of that language. The first call
/// counts.
#[doc(hidden)]
pub fn name_callers_by(name: fn() -> Option<String>) {
    // The first name stays.
    let _ignored = NAME_CALLER.set(name);
}

#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Stack(Arc<Backtrace>),
    Named(Arc<str>),
}

impl Caller {
    /// The caller of the calling thread. Takes microseconds.
    pub(super) fn now() -> Self {
        match NAME_CALLER.get().and_then(|name| name()) {
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
