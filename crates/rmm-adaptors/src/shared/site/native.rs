//! The call site of a program in Rust, C or C++: its frames of the native stack.

use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

use rmm_core::fork;

use super::text::SiteText;
use super::{FRAMES, MOST_SITES, Site, stack};
use crate::shared::tracked::program_frames;

/// The site of each stack that was seen, by its return addresses.
static SEEN: LazyLock<RwLock<HashMap<u64, Site>>> = LazyLock::new(RwLock::default);

/// The most stacks that are remembered. Those that come later have no site.
const MOST_STACKS: usize = 4 * MOST_SITES;

pub(super) fn here() -> Site {
    let Some(stack) = stack::fingerprint() else { return resolved() };
    if let Some(&site) = fork::read(&SEEN).get(&stack) {
        return site;
    }
    // A stack whose site cannot be remembered would be resolved each time, in milliseconds.
    if fork::read(&SEEN).len() >= MOST_STACKS {
        return Site::NONE;
    }
    let site = resolved();
    fork::write(&SEEN).insert(stack, site);
    site
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
