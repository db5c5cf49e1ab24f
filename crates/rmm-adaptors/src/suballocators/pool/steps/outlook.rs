//! What growth and waiting could do for a request: questions about a pool's state, which change
//! nothing and call no driver.

#![forbid(unsafe_code)]

use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::session::Request;
use crate::suballocators::pool::values::growth::Pace;
use crate::suballocators::pool::values::units::{ListId, Point};

/// The fewest bytes that have to come from upstream to serve a request, in whole pages. Where
/// memory can be extended, free parts of upstream blocks in use may be a part of the block; they
/// may not be contiguous, so the request may need more.
pub(crate) fn least_needed(core: &PoolCore, state: &PoolState, request: Request<'_>) -> u64 {
    if !core.growth.extends {
        return core.growth.whole_pages(request.size);
    }
    let heap = &state.heap;
    let in_use = heap.reserved().saturating_sub(heap.live()).saturating_sub(heap.idle_bytes());
    core.growth.whole_pages(request.size.saturating_sub(in_use))
}

/// Whether the free memory that `usable` accepts, with what the limit allows to be added to it,
/// would make a block if all idle memory elsewhere were released.
pub(crate) fn could_extend(
    core: &PoolCore,
    state: &PoolState,
    request: Request<'_>,
    usable: impl Fn(ListId, Point) -> bool,
) -> bool {
    if !core.growth.extends {
        return false;
    }
    let page = core.growth.page;
    let held = state.heap.reserved() + state.pending - state.heap.idle_bytes();
    state.heap.least_missing(request.size, page, usable).is_some_and(|missing| {
        core.growth.extension(held, missing, core.hard_limit(), Pace::Steady).is_some()
    })
}

/// Whether the block could span memory that is added and memory that other streams freed, but only
/// if the stream waits for them.
pub(crate) fn extends_by_waiting(core: &PoolCore, state: &PoolState, request: Request<'_>) -> bool {
    let is_visible = |other, freed| freed <= state.timeline.visible_to(request.list, other);
    let is_waited_for = |other: ListId| !is_visible(other, state.timeline.newest(other));
    state.heap.occupied().any(is_waited_for)
        && could_extend(core, state, request, |_, _| true)
        && !could_extend(core, state, request, is_visible)
}

/// Whether upstream may be asked for more within the limit: `false` is certain.
pub(crate) fn may_grow(
    core: &PoolCore,
    state: &PoolState,
    request: Request<'_>,
    limit: u64,
) -> bool {
    let held = state.heap.reserved() + state.pending;
    let is_extendable = core.growth.extends;
    let peak = state.peak_with(request.size);
    let kept = if is_extendable {
        core.retain_target_extendable(peak, state.pace())
    } else {
        core.growth.retain_target(peak)
    };
    // What is above that is released first, and leaves room.
    let is_surplus = held.saturating_add(request.size) > kept;
    let held = if is_surplus { held - state.heap.idle_bytes() } else { held };
    is_extendable && core.growth.extension(held, core.growth.page, limit, Pace::Steady).is_some()
        || core.growth.chunk_size(held, request.size, limit).is_some()
}

/// Whether the limit would leave room for the request if all idle memory were released.
pub(crate) fn could_grow_without_idle(
    core: &PoolCore,
    state: &PoolState,
    request: Request<'_>,
) -> bool {
    let held = state.heap.reserved() + state.pending - state.heap.idle_bytes();
    let needed = least_needed(core, state, request);
    core.growth.chunk_size(held, needed, core.hard_limit()).is_some()
}
