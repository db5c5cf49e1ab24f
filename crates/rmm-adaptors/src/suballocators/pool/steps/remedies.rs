//! What would let a refused request succeed, for its error.

#![forbid(unsafe_code)]

use std::panic::resume_unwind;

use rmm_core::{Effort, Error, Remedy, RemedyAction};

use super::outlook::least_needed;
use crate::suballocators::pool::state::session::{Request, Session};

/// The remedies of a request that is refused, with upstream's error if it refused. Asks siblings
/// what they hold only if `may_ask`, without the pool's lock.
#[cold]
pub(crate) fn remedies(
    session: &mut Session<'_>,
    request: Request<'_>,
    refused: Option<&Error>,
    may_ask: bool,
) -> Vec<Remedy> {
    let core = session.core;
    let needed = least_needed(core, session, request);
    let pending = session.pending_bytes();
    let waits = pending.iter().map(|held| Remedy::wait(held.stream, held.bytes, request.size));
    let mut remedies: Vec<Remedy> = waits.collect();
    let effort = Effort::current();
    let is_too_large = request.size > core.hard_limit().max(session.heap.reserved());
    if effort != Effort::Full && !is_too_large {
        let bytes = pending.iter().map(|held| held.bytes).sum();
        remedies.push(Remedy::more_effort(effort, bytes, needed));
    }
    let held = session.heap.reserved() + session.pending;
    let lacking = held.saturating_add(needed).saturating_sub(core.hard_limit());
    if lacking > 0 {
        remedies.push(Remedy::raise_limit(core.name, core.siblings.id(), lacking));
    }
    // The limit of a resource below.
    let below = refused.into_iter().flat_map(Error::remedies).copied();
    remedies.extend(below.filter(|it| matches!(it.action, RemedyAction::RaiseLimit { .. })));
    if may_ask && refused.is_none_or(Error::is_out_of_memory) {
        let limit = match refused {
            Some(error) => error.limit_id(),
            None => Some(core.siblings.id()),
        };
        let usages = session.unlocked(|| core.siblings.others(limit).usages());
        let usages = usages.unwrap_or_else(|panic| resume_unwind(panic));
        let with_some = usages.iter().filter(|(_, usage)| usage.free_bytes() > 0);
        remedies.extend(with_some.map(|(name, usage)| Remedy::trim(name, usage, needed)));
    }
    remedies
}
