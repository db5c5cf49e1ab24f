//! Growth where upstream's memory can be extended: a block gets the memory that it lacks, next to
//! free memory that it may have.

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::MutexGuard;

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Error, ErrorKind, ExtendableResource, Introspect,
    SyncResource,
};

use super::shared::Shared;
use super::slow::{Outcome, RETRIES, Request, Underway};
use super::state::{Row, State};
use crate::trace;

/// What to give back before more is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Thrift {
    /// What is beyond all that the program has ever used.
    Surplus,
    /// What has to go to stay within the hard limit.
    Excess,
}

impl Shared {
    /// Upstream, if memory from there can be extended and this pool's blocks can lie across its
    /// borders.
    pub(super) fn extendable<'u>(
        &self,
        upstream: &'u dyn SyncResource,
    ) -> Option<&'u dyn ExtendableResource> {
        upstream.as_extendable().filter(|_| self.growth.block.is_none())
    }

    /// Asks upstream for memory in one row, of which parts can go back if that is possible.
    ///
    /// # Errors
    /// Upstream's.
    pub(super) fn allocate_row(
        &self,
        upstream: &dyn SyncResource,
        layout: Layout,
    ) -> Result<Row, Error> {
        let bytes = layout.size() as u64;
        if let Some(upstream) = self.extendable(upstream) {
            let page = upstream.page_size() as u64;
            let piece = self.growth.piece_size(bytes, page);
            if piece < bytes && bytes.is_multiple_of(page) {
                let row =
                    trace::growing(self.name, bytes, || allocate_in_pieces(upstream, bytes, piece));
                if !row.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfRange) {
                    return row;
                }
                // Somebody else has these addresses.
            }
        }
        let base = trace::growing(self.name, bytes, || upstream.allocate_sync(layout))?;
        Ok(Row { base, pieces: vec![bytes] })
    }

    /// Adds memory from upstream, and notes whether it can be extended.
    pub(super) fn add_row(&self, state: &mut State, upstream: &dyn SyncResource, row: &Row) {
        let segment = state.add_row(row);
        state.outlives_context =
            upstream.as_extendable().is_some_and(ExtendableResource::outlives_context);
        let extendable = self.extendable(upstream);
        let bytes: u64 = row.pieces.iter().sum();
        if extendable.is_some_and(|it| bytes.is_multiple_of(it.page_size() as u64)) {
            state.heap.make_extendable(segment);
        }
    }

    /// Asks upstream for what a block lacks at the best place for it, with the lock released
    /// meanwhile. `None` as the error means that there is no such place, or that the limit leaves
    /// no room.
    pub(super) fn extend<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        upstream: &dyn ExtendableResource,
        request: Request<'_>,
        (limit, thrift): (u64, Thrift),
    ) -> Outcome<'s, Option<Error>> {
        let Request { list, size, .. } = request;
        let page = upstream.page_size() as u64;
        let mut is_frugal = false;
        let mut retries = 0;
        loop {
            let Some(mut claim) = state.claim(list, size, page) else { return (state, Err(None)) };
            let others_called = state.others_call();
            let missing = claim.missing_bytes();
            let most = match thrift {
                Thrift::Surplus => self.growth.enough_extended(state.peak_with(size)),
                Thrift::Excess => self.growth.hard_limit,
            };
            state = self.make_room(state, request, missing, most);
            let held = state.heap.reserved() + state.pending;
            if let Err(error) = could_have(upstream, held.saturating_add(missing)) {
                state.give_up(claim, list);
                return (state, Err(Some(error)));
            }
            let Some(wanted) = self.growth.extension(held, missing, limit, page) else {
                state.give_up(claim, list);
                return (state, Err(None));
            };
            let needed_end = claim.end_of_missing();
            if claim.is_at_end && !is_frugal {
                state.heap.widen(&mut claim, wanted - missing);
            }
            let pieces = cut(&claim.missing, self.growth.piece_size(held, page));
            let base = state.base(claim.segment);
            // What other threads are giving back has left a gap, but upstream may not have it yet;
            // and what they ask for at addresses of upstream's choice may go back.
            let may_be_leaving = others_called || state.others_call();
            let underway = Underway::asking(self, state, request, claim.missing_bytes());
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                trace::growing(self.name, claim.missing_bytes(), || {
                    allocate_all(upstream, base, &pieces)
                })
            }));
            state = underway.settle();
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(panic) => {
                    state.give_up(claim, list);
                    drop(state);
                    resume_unwind(panic)
                }
            };
            let Err((offset, error)) = outcome else {
                let node = state.meet(&claim, &pieces, size, list);
                return (state, Ok(node));
            };
            let (segment, was_more) = (claim.segment, claim.missing_bytes() > missing);
            state.give_up(claim, list);
            if error.kind() == ErrorKind::OutOfRange && was_more && offset >= needed_end {
                // Somebody else has addresses that would be of use, but are not needed.
                is_frugal = true;
            } else if error.kind() == ErrorKind::OutOfRange && may_be_leaving && retries < RETRIES {
                retries += 1;
                let settled = state.settled;
                state = self.wait_for_others(state, settled);
            } else if error.kind() == ErrorKind::OutOfRange {
                // Somebody else has these addresses.
                state.heap.close_at(segment, offset);
            } else if error.is_out_of_memory() && was_more {
                is_frugal = true;
            } else {
                return (state, Err(Some(error)));
            }
        }
    }
}

/// An error if upstream can never have so many bytes: to find that out piece by piece would take
/// seconds.
fn could_have(upstream: &dyn ExtendableResource, bytes: u64) -> Result<(), Error> {
    match upstream.most_bytes() {
        Some(most) if bytes > most => {
            let message = format!("{bytes} bytes are more than the {most} that there are");
            Err(Error::out_of_memory(upstream.name())
                .with_source(Error::out_of_range("extend", message)))
        }
        _ => Ok(()),
    }
}

/// Allocates a row at addresses of upstream's choice.
fn allocate_in_pieces(
    upstream: &dyn ExtendableResource,
    bytes: u64,
    piece: u64,
) -> Result<Row, Error> {
    could_have(upstream, bytes)?;
    let first = usize::try_from(piece)
        .ok()
        .and_then(|size| Layout::from_size_align(size, CUDA_ALLOCATION_ALIGNMENT).ok())
        .ok_or_else(|| Error::out_of_memory("pool"))?;
    let base = upstream.allocate_sync(first)?;
    let made = Made { upstream, blocks: vec![(base, first)] };
    let rest = cut(&[(piece, bytes - piece)], piece);
    allocate_all(upstream, base, &rest).map_err(|(_, error)| error)?;
    made.keep();
    let pieces = std::iter::once(piece).chain(rest.into_iter().map(|(_, bytes)| bytes));
    Ok(Row { base, pieces: pieces.collect() })
}

/// What is missing, as offsets and bytes, in pieces of at most so many bytes.
fn cut(missing: &[(u64, u64)], most: u64) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    for &(start, bytes) in missing {
        let mut offset = start;
        while offset < start + bytes {
            let size = most.min(start + bytes - offset);
            pieces.push((offset, size));
            offset += size;
        }
    }
    pieces
}

/// Allocates all of the pieces, or none: then the offset of the one that failed is told.
fn allocate_all(
    upstream: &dyn ExtendableResource,
    base: DevicePtr,
    pieces: &[(u64, u64)],
) -> Result<(), (u64, Error)> {
    let mut made = Made { upstream, blocks: Vec::with_capacity(pieces.len()) };
    for &(offset, size) in pieces {
        let base = DevicePtr(base.0 + offset);
        let allocated = usize::try_from(size)
            .ok()
            .and_then(|size| Layout::from_size_align(size, CUDA_ALLOCATION_ALIGNMENT).ok())
            .ok_or_else(|| Error::out_of_memory("pool"))
            .and_then(|layout| upstream.allocate_at(base, layout).map(|()| layout));
        made.blocks.push((base, allocated.map_err(|error| (offset, error))?));
    }
    made.keep();
    Ok(())
}

/// Blocks that upstream gave for a purpose that needs all of them: dropped before that, they go
/// back.
struct Made<'u> {
    upstream: &'u dyn ExtendableResource,
    /// # Invariant
    /// Allocated from `upstream`, each with its layout, and known to no one else.
    blocks: Vec<(DevicePtr, Layout)>,
}

impl Made<'_> {
    /// All are there: none goes back.
    fn keep(mut self) {
        self.blocks.clear();
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for (base, layout) in self.blocks.drain(..) {
            // A panic of upstream was reported when it began. It must not leave a `Drop`, nor keep
            // the others from going back.
            let _reported = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the field's invariant, and the block is in the list no more.
                unsafe { self.upstream.deallocate_sync(base, layout) };
            }));
        }
    }
}
