//! Flushes: cached blocks return to the heap.
//!
//! Each function runs under the pool's lock, so no thread makes new caches meanwhile. Between two
//! calls of [`flush_next`](Caches::flush_next) the lock may be released: then threads may make new
//! caches in slots that were passed.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use rmm_core::StreamId;

use super::cache::{Cache, Counters, FlushGoal};
use super::slot::SlotHeader;
use super::slot_set::SLOTS;
use super::{Caches, Flushed};
use crate::sync::biased::NextOwner;
use crate::sync::thread_token::ThreadToken;

/// How many slots are looked at for a grant to take back.
const LOOKED_AT: usize = 8;

impl Caches {
    /// How often a cache that had blocks was emptied.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Flushes all blocks of a cache.
    pub(super) fn flush_cache(
        &self,
        header: &SlotHeader,
        cache: &mut Cache,
        mut to: impl FnMut(StreamId, Flushed),
    ) {
        let counters = &header.counters;
        if counters.bytes() + counters.span_bytes() > 0 {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }
        let stream = cache.stream();
        let mut classes = self.policy.classes();
        if let Some(class) = classes.next() {
            let to = |block| to(stream, Flushed::Block(block));
            cache.flush(class, classes, FlushGoal::ALL, counters, to);
        }
        cache.remove_spans(counters, |span| self.to_heap(stream, span, &mut to));
        self.budget.take_back(&counters.grant);
    }

    /// Flushes the caches of all streams, or of one, whose slots are free for others then.
    ///
    /// The pool's lock is held, so no thread makes new ones.
    #[cold]
    pub(crate) fn flush_all(&self, stream: Option<StreamId>, to: impl FnMut(StreamId, Flushed)) {
        self.flush_all_as(ThreadToken::current(), stream, to);
    }

    /// Flushes the caches of the next slots from `next` on, `most` at most, as
    /// [`flush_all`](Self::flush_all), and moves `next` behind them. Returns whether there are
    /// more. Between two calls the lock may be released: up to 3,072 blocks of each cache are
    /// freed under it.
    #[cold]
    pub(crate) fn flush_next(
        &self,
        next: &mut usize,
        most: usize,
        to: impl FnMut(StreamId, Flushed),
    ) -> bool {
        let from = *next;
        let mut used = self.used.iter().filter(|&slot| slot >= from);
        let Some(last) = used.by_ref().take(most).last() else { return false };
        let has_more = used.next().is_some();
        *next = last + 1;
        let is_next = |slot, _: &SlotHeader| (from..=last).contains(&slot);
        self.flush_where(ThreadToken::current(), is_next, to);
        has_more
    }

    /// Flushes the caches that [`flush_all`](Self::flush_all) does; `me` is the calling thread,
    /// unless that is exiting.
    pub(super) fn flush_all_as(
        &self,
        me: Option<ThreadToken>,
        stream: Option<StreamId>,
        mut to: impl FnMut(StreamId, Flushed),
    ) {
        self.flush_where(me, |_, header| stream.is_none_or(|stream| header.is_of(stream)), &mut to);
    }

    /// Flushes the caches in use that `is_wanted` accepts, whose slots are free for others then.
    fn flush_where(
        &self,
        me: Option<ThreadToken>,
        is_wanted: impl Fn(usize, &SlotHeader) -> bool,
        mut to: impl FnMut(StreamId, Flushed),
    ) {
        if self.are_unused() {
            return;
        }
        let Some(mut revoker) = self.table.revoker_of_made() else { return };
        let slots = revoker.slots();
        let wanted = self.used.iter().filter(|&slot| {
            let header = slots[slot].header();
            is_wanted(slot, header) && !header.is_unused()
        });
        revoker.revoke(me, NextOwner::None, wanted, |header, cache| {
            header.assign(None);
            if let Some(shared) = header.unshare() {
                *cache = Some(shared);
            }
            if let Some(cache) = cache {
                self.flush_cache(header, cache, &mut to);
            }
            self.spare().extend(cache.take());
        });
        for slot in self.used.iter() {
            if slots[slot].header().is_unused() {
                self.used.remove(slot);
            }
        }
    }

    /// Flushes the large blocks of all caches. Each cache keeps its owner, its stream, its small
    /// blocks and its spans.
    ///
    /// The pool's lock is held.
    #[cold]
    pub(crate) fn flush_large(&self, mut to: impl FnMut(StreamId, Flushed)) {
        let Some(slots) = self.table.slots() else { return };
        let filled = self.used.iter().filter(|&slot| slots[slot].header().counters.bytes() > 0);
        self.edit(filled, |cache, counters| {
            let stream = cache.stream();
            cache.flush_large(counters, |block| to(stream, Flushed::Block(block)));
        });
    }

    /// Edits the caches in these slots, each of which keeps its owner.
    pub(super) fn edit(
        &self,
        slots: impl IntoIterator<Item = usize>,
        mut edit: impl FnMut(&mut Cache, &Counters),
    ) {
        let Some(mut revoker) = self.table.revoker_of_made() else { return };
        revoker.revoke(
            ThreadToken::current(),
            NextOwner::Former,
            slots,
            |header, cache| match cache.as_deref_mut() {
                Some(cache) => edit(cache, &header.counters),
                None => header.edit_shared(|cache| edit(cache, &header.counters)),
            },
        );
    }

    /// Takes the grant of a cache back that has served no call for long, or that has much more than
    /// its share, for a cache that gets none. Looks at the next few slots, so that each is looked
    /// at seldom enough for that. The blocks are flushed to `to`.
    ///
    /// The pool's lock is held.
    #[cold]
    pub(crate) fn take_grant_back(&self, to: impl FnMut(StreamId, Flushed)) {
        let Some(slots) = self.table.slots() else { return };
        let from = self.next_looked_at.load(Ordering::Relaxed);
        let is_victim = |index: &usize| {
            let header = slots[*index].header();
            let (grant, was_idle) = (&header.counters.grant, header.was_idle());
            grant.bytes() > 0 && (was_idle || self.budget.is_exceeded_by(grant))
        };
        let mut looked_at = (0..LOOKED_AT).map(|more| (from + more) % SLOTS);
        let victim = looked_at.find(is_victim);
        let next = victim.map_or(from + LOOKED_AT, |victim| victim + 1);
        self.next_looked_at.store(next % SLOTS, Ordering::Relaxed);
        if let Some(victim) = victim {
            self.flush_where(ThreadToken::current(), |index, _| index == victim, to);
        }
    }
}
