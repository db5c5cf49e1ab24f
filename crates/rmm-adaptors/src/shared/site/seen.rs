//! The site of each stack that was seen.

use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

use rmm_core::fork;

use super::{MOST_SITES, Site};
use crate::sync::hash::BuildIdHasher;

/// By the number of the stack.
static SEEN: LazyLock<RwLock<HashMap<u64, Site, BuildIdHasher>>> = LazyLock::new(RwLock::default);

/// The most stacks that are remembered.
const MOST_STACKS: usize = 4 * MOST_SITES;

/// The site of the stack with this number, which is resolved if it was not seen before. `None` for
/// those beyond [`MOST_STACKS`].
pub(super) fn site(stack: u64, resolve: impl FnOnce() -> Site) -> Option<Site> {
    let seen = fork::read(&SEEN);
    if let Some(&site) = seen.get(&stack) {
        return Some(site);
    }
    let has_room = seen.len() < MOST_STACKS;
    drop(seen);
    if !has_room {
        return None;
    }
    let site = resolve();
    fork::write(&SEEN).insert(stack, site);
    Some(site)
}
