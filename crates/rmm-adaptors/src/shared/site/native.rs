//! The call site of a program in Rust, C or C++: its frames of the native stack.

use std::backtrace::Backtrace;

use super::text::SiteText;
use super::{FRAMES, Site, seen, stack};
use crate::shared::tracked::program_frames;

pub(super) fn here() -> Site {
    match stack::fingerprint() {
        // A stack whose site cannot be remembered would be resolved each time, in milliseconds.
        Some(stack) => seen::site(stack, resolved).unwrap_or_default(),
        None => resolved(),
    }
}

/// Resolves the symbols of the stack.
#[cold]
fn resolved() -> Site {
    // Without a current directory, paths are displayed in full.
    let folder = std::env::current_dir().unwrap_or_default();
    let mut text = SiteText::default();
    for frame in program_frames(&Backtrace::force_capture().to_string(), &folder).take(FRAMES) {
        match frame.place {
            Some((file, line)) => text.frame(file, line, frame.function),
            None => text.function(frame.function),
        };
    }
    Site::named(text.as_str())
}
