//! Builds a trace from calls: matches frees to allocations, counts live bytes and checks
//! consistency.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::columns::{Cell, Columns};
use super::data::{Before, Growth, NO_DEVICE, Trace};
use super::error::Reason;
use super::event::{ALIGNMENT, Action, Event, MAX_EVENTS};
use super::names::{Names, Numbers};
use super::row::RowAction;

/// A [`Reason`] and its line; the path is added by the caller.
pub(super) struct Failure {
    pub(super) line: Option<u64>,
    pub(super) reason: Reason,
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Self { line: None, reason }
    }
}

/// One call that was recorded.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) line: u64,
    pub(super) thread: u64,
    /// Nanoseconds since the first call, if known.
    pub(super) time: Option<u64>,
    pub(super) action: RowAction,
    pub(super) pointer: u64,
    pub(super) size: u64,
    pub(super) stream: u64,
    /// What [`Builder::tag`] and [`Builder::site`] gave.
    pub(super) tag: u32,
    pub(super) site: u32,
    pub(super) device: Option<u32>,
}

impl Call {
    /// A call of which only the action is known.
    pub(super) fn new(action: RowAction) -> Self {
        Call {
            line: 0,
            thread: 0,
            time: None,
            action,
            pointer: 0,
            size: 0,
            stream: 0,
            tag: 0,
            site: 0,
            device: None,
        }
    }
}

/// What is known after some of the calls.
#[derive(Default)]
pub(super) struct Builder {
    events: Vec<Event>,
    columns: Columns,
    threads: Numbers,
    streams: Numbers,
    tags: Names,
    sites: Names,
    devices: Numbers,
    before: Vec<Before>,
    /// The addresses at which blocks with bytes were freed.
    freed: HashSet<u64>,
    /// The live blocks that have bytes, by address.
    live: HashMap<u64, Live>,
    /// The live blocks without bytes: any number of them may have the same address, null or not.
    live_empty: HashMap<u64, Vec<Live>>,
    /// Slots below `blocks` that no live block has; the last one freed is taken first.
    free_slots: Vec<u32>,
    blocks: u32,
    live_bytes: u64,
    live_aligned: u64,
    peak_live: u64,
    peak_live_aligned: u64,
    peak_event: usize,
    ended: bool,
    ends_early: bool,
    growth: Vec<Growth>,
    reserved_before: u64,
}

/// In place of an event; there are far fewer.
const NO_EVENT: u32 = u32::MAX;

/// A live block.
#[derive(Clone, Copy)]
struct Live {
    block: u32,
    /// The event that allocated it; [`NO_EVENT`] if it was live before the first.
    event: u32,
    size: u64,
    /// Where it was allocated, for messages.
    line: u64,
}

impl Builder {
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Notes that the end mark is there.
    pub(super) fn ended(&mut self) {
        self.ended = true;
    }

    /// Notes that the end is missing, or that the program still runs.
    pub(super) fn ends_early(&mut self) {
        self.ends_early = true;
    }

    /// Notes what an allocator took and returned, and what it holds in the end.
    pub(super) fn set_growth(&mut self, growth: Vec<Growth>, reserved_after: u64) {
        let before = growth.iter().fold(i128::from(reserved_after), |bytes, growth| {
            let change = i128::from(growth.bytes);
            if growth.is_taken { bytes - change } else { bytes + change }
        });
        self.reserved_before = u64::try_from(before.max(0)).unwrap_or(u64::MAX);
        self.growth = growth;
    }

    /// The bytes of the block that is live at an address.
    pub(super) fn size_of(&self, address: u64) -> Option<u64> {
        self.live.get(&address).map(|live| live.size)
    }

    /// Changes the tag of the live block at an address, if the log has its allocation.
    pub(super) fn retag(&mut self, address: u64, tag: u32) {
        if let Some(live) = self.live.get(&address).filter(|live| live.event != NO_EVENT) {
            self.columns.set_tag(live.event as usize, tag);
        }
    }

    /// Adds the next call.
    pub(super) fn add(&mut self, call: &Call) -> Result<(), Reason> {
        if self.events.len() == MAX_EVENTS {
            return Err(Reason::TooManyEvents);
        }
        let &Call { line, pointer, size, .. } = call;
        let stream = self.streams.index(call.stream);
        let device = self.device(call.device);
        let action = match call.action {
            RowAction::Allocate => self.allocate(line, pointer, size)?,
            RowAction::Free => self.free(pointer, size, stream, device)?,
            RowAction::AllocateFailure => Action::AllocateFailure { size },
        };
        let thread = self.threads.index(call.thread);
        let known =
            Cell { time: call.time, address: pointer, tag: call.tag, site: call.site, device };
        self.columns.push(self.events.len(), known);
        self.events.push(Event { line, thread, stream, action });
        Ok(())
    }

    /// The index of a tag.
    pub(super) fn tag(&mut self, tag: &str) -> Result<u32, Reason> {
        self.tags.index(tag)
    }

    /// The index of a site.
    pub(super) fn site(&mut self, site: &str) -> Result<u32, Reason> {
        self.sites.index(site)
    }

    /// Whether sites should be short from here on.
    pub(super) fn has_many_sites(&self) -> bool {
        self.sites.are_many()
    }

    /// The index of a stream.
    pub(super) fn stream(&mut self, handle: u64) -> u32 {
        self.streams.index(handle)
    }

    /// The index of a device.
    pub(super) fn device(&mut self, ordinal: Option<u32>) -> u32 {
        ordinal.map_or(0, |ordinal| self.devices.index(ordinal.into()) + 1)
    }

    /// Whether no block has been seen at the address of a free, so that it is of one that was live
    /// before the first call. Any number of blocks without bytes may be from before.
    fn is_unseen(&self, pointer: u64, size: u64) -> bool {
        let is_seen = self.live.contains_key(&pointer)
            || self.live_empty.contains_key(&pointer)
            || self.freed.contains(&pointer);
        let can_be = pointer != 0 || size == 0;
        can_be && !is_seen
    }

    /// Adds a block that has been live since before the first call; `block` of it is set here.
    pub(super) fn add_before(&mut self, before: Before) -> Result<(), Reason> {
        let Before { size, address, .. } = before;
        // It was live at every moment up to now, so every one of these had this much more.
        let peak_live_aligned =
            self.peak_live_aligned.checked_add(aligned(size)).ok_or(Reason::LiveOverflow)?;
        // A slot that no block has had.
        let new = Live { block: self.blocks, event: NO_EVENT, size, line: 0 };
        if size == 0 {
            self.live_empty.entry(address).or_default().push(new);
        } else {
            self.live.insert(address, new);
        }
        self.before.push(Before { block: self.blocks, ..before });
        self.blocks += 1;
        self.peak_live_aligned = peak_live_aligned;
        self.peak_live += size;
        self.live_aligned += aligned(size);
        self.live_bytes += size;
        Ok(())
    }

    fn allocate(&mut self, line: u64, pointer: u64, size: u64) -> Result<Action, Reason> {
        // The aligned sum is never the smaller one, so only this one can overflow.
        let live_aligned =
            self.live_aligned.checked_add(aligned(size)).ok_or(Reason::LiveOverflow)?;
        let block = self.free_slots.last().copied().unwrap_or(self.blocks);
        let event = u32::try_from(self.events.len()).unwrap_or(NO_EVENT);
        let new = Live { block, event, size, line };
        match (size, pointer) {
            (0, _) => self.live_empty.entry(pointer).or_default().push(new),
            (_, 0) => return Err(Reason::NullPointer { size }),
            _ => match self.live.entry(pointer) {
                Entry::Occupied(old) => {
                    return Err(Reason::AlreadyLive { pointer, line: old.get().line });
                }
                Entry::Vacant(place) => {
                    place.insert(new);
                }
            },
        }
        if self.free_slots.pop().is_none() {
            self.blocks += 1;
        }
        self.live_bytes += size;
        self.live_aligned = live_aligned;
        self.peak_live = self.peak_live.max(self.live_bytes);
        if self.live_aligned > self.peak_live_aligned {
            self.peak_live_aligned = self.live_aligned;
            self.peak_event = self.events.len();
        }
        Ok(Action::Allocate { block, size })
    }

    fn free(
        &mut self,
        pointer: u64,
        size: u64,
        stream: u32,
        device: u32,
    ) -> Result<Action, Reason> {
        let block = match self.take(pointer, size) {
            Some(live) => live.block,
            None if self.is_unseen(pointer, size) => {
                let before =
                    Before { block: 0, size, address: pointer, stream, tag: 0, site: 0, device };
                self.add_before(before)?;
                self.take(pointer, size).ok_or(Reason::NotLive { pointer })?.block
            }
            None => return Err(self.not_freeable(pointer, size)),
        };
        self.free_slots.push(block);
        self.live_bytes -= size;
        self.live_aligned -= aligned(size);
        Ok(Action::Free { block, size })
    }

    /// Removes the live block with this pointer and size.
    fn take(&mut self, pointer: u64, size: u64) -> Option<Live> {
        if size == 0 {
            return self.take_empty(pointer);
        }
        match self.live.entry(pointer) {
            Entry::Occupied(entry) if entry.get().size == size => {
                self.freed.insert(pointer);
                Some(entry.remove())
            }
            _ => None,
        }
    }

    fn take_empty(&mut self, pointer: u64) -> Option<Live> {
        let Entry::Occupied(mut entry) = self.live_empty.entry(pointer) else { return None };
        let taken = entry.get_mut().pop();
        if entry.get().is_empty() {
            entry.remove();
        }
        taken
    }

    /// Why no live block has this pointer and size.
    fn not_freeable(&self, pointer: u64, size: u64) -> Reason {
        let empty = self.live_empty.get(&pointer).and_then(|blocks| blocks.last());
        match self.live.get(&pointer).or(empty) {
            Some(live) => {
                Reason::SizeMismatch { pointer, allocated: live.size, freed: size, line: live.line }
            }
            None => Reason::NotLive { pointer },
        }
    }

    /// The finished trace.
    pub(super) fn into_trace(self, path: PathBuf) -> Trace {
        let ordinal = |ordinal| u32::try_from(ordinal).unwrap_or(NO_DEVICE);
        let ordinals = self.devices.into_values().into_iter().map(ordinal);
        Trace {
            path,
            events: self.events,
            threads: self.threads.into_values(),
            streams: self.streams.into_values(),
            blocks: self.blocks,
            peak_live: self.peak_live,
            peak_live_aligned: self.peak_live_aligned,
            peak_event: self.peak_event,
            before: self.before,
            tags: self.tags.into_values(),
            sites: self.sites.into_values(),
            devices: std::iter::once(NO_DEVICE).chain(ordinals).collect(),
            growth: self.growth,
            reserved_before: self.reserved_before,
            columns: self.columns,
            ended: self.ended,
            ends_early: self.ends_early,
        }
    }
}

/// A size rounded up to what the block takes; no overflow, as sizes stay below `isize::MAX`.
fn aligned(size: u64) -> u64 {
    size.next_multiple_of(ALIGNMENT)
}
