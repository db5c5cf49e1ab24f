//! Growth: a request asks upstream for memory, with the pool's lock released meanwhile.
//!
//! In place, where upstream supports it: the missing pages between and after free blocks are
//! mapped, so that the request fits contiguously. Else a new extent, of which the rest is free.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Effort, Error, ErrorKind, ExtendableResource,
};

use super::extents::{allocate_all, check_capacity, cut};
use super::outlook::{could_extend, could_grow_without_idle};
use crate::shared::trace;
use crate::suballocators::pool::heap::NodeId;
use crate::suballocators::pool::state::session::{MAX_RETRIES, Request, Session};
use crate::suballocators::pool::values::growth::Pace;

/// What the pool keeps when it releases memory before it asks for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keep {
    /// As much as the program has ever used, and some room.
    PeakUse,
    /// As much as the hard limit allows.
    WithinLimit,
}

impl Session<'_> {
    /// Asks upstream for memory, up to `limit` bytes in all, and takes the request's block from it.
    ///
    /// # Errors
    /// Upstream's; `None` if the limit leaves no room.
    pub(crate) fn grow(
        &mut self,
        request: Request<'_>,
        limit: u64,
    ) -> Result<NodeId, Option<Error>> {
        let core = self.core;
        core.segments.check_growth(core.name).map_err(Some)?;
        let extendable = core.extendable(request.upstream);
        if let Some(upstream) = extendable {
            let extended = self.extend(upstream, request, limit, Keep::PeakUse);
            if !matches!(extended, Err(None)) {
                return extended;
            }
        }
        let held = self.heap.reserved() + self.pending;
        let pages =
            extendable.and_then(|_| core.growth.extension(held, request.size, limit, self.pace()));
        let chunk = pages.or_else(|| core.growth.chunk_size(held, request.size, limit));
        let mut bytes = chunk.ok_or(None)?;
        let least = core.growth.whole_pages(request.size);
        loop {
            let layout = usize::try_from(bytes)
                .ok()
                .and_then(|bytes| Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT).ok())
                .ok_or(None)?;
            let grown = self.ask_upstream(bytes, || {
                let extent = core.allocate_extent(request.upstream, layout)?;
                core.announce(request.upstream, extent.ranges()).map(|()| extent)
            });
            match grown.unwrap_or_else(|panic| resume_unwind(panic)) {
                Ok(extent) => {
                    core.add_extent(self, request.upstream, &extent);
                    return self.take_free(request.list, request.size).ok_or(None);
                }
                Err(error) if !error.is_out_of_memory() => return Err(Some(error)),
                // Upstream has less than a step: ask for no more than the request needs.
                Err(_) if bytes > least => bytes = least,
                Err(error) => return Err(Some(error)),
            }
        }
    }

    /// Releases every idle upstream block and asks for one that is large enough.
    ///
    /// # Errors
    /// The errors of [`grow`](Self::grow); `None` also if that could not help.
    pub(crate) fn release_idle_and_grow(
        &mut self,
        request: Request<'_>,
    ) -> Result<NodeId, Option<Error>> {
        let core = self.core;
        core.segments.check_growth(core.name).map_err(Some)?;
        let hard_limit = core.hard_limit();
        if let Some(upstream) = core.extendable(request.upstream)
            && could_extend(core, self, request, |_, _| true)
        {
            // To release less than all may be enough.
            let extended = self.extend(upstream, request, hard_limit, Keep::WithinLimit);
            if extended.is_ok() {
                return extended;
            }
        }
        let unused = self.heap.unused_pieces();
        if unused.is_empty() || !could_grow_without_idle(core, self, request) {
            return Err(None);
        }
        let blocks = self.remove_pieces(unused);
        self.release_blocks(request.upstream, &blocks);
        self.grow(request, hard_limit)
    }

    /// Asks upstream for what the block lacks at the best place for it.
    ///
    /// # Errors
    /// Upstream's; `None` if there is no such place, or if the limit leaves no room.
    fn extend(
        &mut self,
        upstream: &dyn ExtendableResource,
        request: Request<'_>,
        limit: u64,
        keep: Keep,
    ) -> Result<NodeId, Option<Error>> {
        let growth = &self.core.growth;
        let (name, Request { list, size, .. }) = (self.core.name, request);
        let page = growth.page;
        let mut takes_least = false;
        let mut retries = 0;
        loop {
            let mut extent = self.reserve(list, size, page).ok_or(None)?;
            let others_called = self.others_call();
            let missing = extent.missing_bytes();
            let (peak, program) = (self.peak_with(size), self.pace());
            let (most, limit_of_room) = match keep {
                Keep::PeakUse => (
                    self.core.retain_target_extendable(peak, program),
                    self.core.retain_limit(peak, program),
                ),
                Keep::WithinLimit => (limit, limit),
            };
            let may_grow = catch_unwind(AssertUnwindSafe(|| {
                self.make_room(request, missing, most, limit_of_room);
                let held = self.heap.reserved() + self.pending;
                check_capacity(upstream, held.saturating_add(missing)).map(|()| held)
            }));
            let held = match may_grow {
                Ok(Ok(held)) => held,
                Ok(Err(error)) => {
                    self.abort(extent, list);
                    return Err(Some(error));
                }
                Err(panic) => {
                    self.abort(extent, list);
                    resume_unwind(panic)
                }
            };
            let program = self.pace();
            let Some(wanted) = growth.extension(held, missing, limit, program) else {
                self.abort(extent, list);
                return Err(None);
            };
            let needed_end = extent.end_of_missing();
            if extent.is_at_end && !takes_least {
                let room = most.saturating_sub(held) / page * page;
                self.heap.widen(&mut extent, wanted.min(missing.max(room)) - missing);
            }
            let stays = held + missing <= most;
            let bytes = extent.missing_bytes();
            let piece = match program {
                Pace::Loading if stays => growth.coarse_piece_size(held, bytes),
                Pace::Loading | Pace::Steady => growth.piece_size(held, bytes),
            };
            let pieces = cut(&extent.missing, piece);
            let base = self.base(extent.segment);
            // Memory that other threads are releasing has left a gap, but upstream may not have it
            // yet; and what they ask for at addresses of upstream's choice may be released.
            let may_be_leaving = others_called || self.others_call();
            let core = self.core;
            let outcome = self.ask_upstream(bytes, || {
                trace::growing(name, bytes, || allocate_all(upstream, base, &pieces))?;
                let ranges = pieces.iter();
                let ranges = ranges.map(|&(offset, bytes)| (DevicePtr(base.0 + offset), bytes));
                core.announce(request.upstream, ranges).map_err(|error| (needed_end, error))
            });
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(panic) => {
                    self.abort(extent, list);
                    resume_unwind(panic)
                }
            };
            let Err((offset, error)) = outcome else {
                return Ok(self.commit(&extent, &pieces, size, list));
            };
            let (segment, was_more) = (extent.segment, extent.missing_bytes() > missing);
            self.abort(extent, list);
            let is_taken = error.kind() == ErrorKind::OutOfRange;
            if is_taken && was_more && offset >= needed_end {
                // Addresses are taken that would be of use, but are not needed.
                takes_least = true;
            } else if is_taken && may_be_leaving && retries < MAX_RETRIES {
                if self.wait_for_others(self.settled_of_others()) {
                    retries += 1;
                } else if Effort::current() != Effort::Full {
                    // The addresses may be free soon.
                    return Err(None);
                } else {
                    self.heap.close_at(segment, offset);
                }
            } else if is_taken {
                self.heap.close_at(segment, offset);
            } else if error.is_out_of_memory() && was_more {
                takes_least = true;
            } else {
                return Err(Some(error));
            }
        }
    }
}
