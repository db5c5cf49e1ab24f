//! Snapshots of PyTorch's allocator, as `torch.cuda.memory._dump_snapshot` writes them.
//!
//! A snapshot is a pickled dictionary. `device_traces` has the last events of each device, oldest
//! first, of which the oldest may be missing; `segments` has the memory that the allocator holds,
//! cut into blocks. What is read of them:
//!
//! | entry | becomes |
//! |---|---|
//! | `alloc` | an allocation of the bytes that were asked for |
//! | `free_completed` | a free: until then the memory cannot be used again |
//! | `oom` | a request that failed |
//! | `segment_alloc`, `segment_map`, `segment_free`, `segment_unmap` | a [`Growth`] |
//! | `annotate` | the tag of the allocation of the live block at its address |
//! | `free_requested`, `snapshot`, and what later versions add | nothing |
//!
//! The tag of an event is the metadata that the program set, or else the innermost range of
//! PyTorch's annotations that the event is in.
//!
//! Blocks that are freed and were not allocated, and blocks of segments that are in use and were
//! not allocated either, were live before the recording began. The events of several devices are
//! merged by their times.

mod annotations;
mod entry;
mod site;
mod wrong;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::build::{Builder, Call};
use super::data::{Before, Growth};
use super::error::Reason;

use super::pickle::{Node, Pickle, Value};
use super::row::RowAction;
use annotations::Annotations;
use entry::{Entry, Kind};
use site::Sites;
use wrong::Place;

/// A snapshot being read.
struct Reader<'a> {
    pickle: &'a Pickle,
    builder: Builder,
    sites: Sites,
    annotations: Annotations,
    growth: Vec<Growth>,
    /// The time of the first event and of the last, in microseconds.
    first_time: Option<i64>,
    last_time: i64,
}

/// Makes a trace of a snapshot.
pub(super) fn read(pickle: &Pickle) -> Result<Builder, Reason> {
    let root = pickle.root();
    let traces = pickle.get(root, "device_traces").ok_or(Reason::NoSnapshot)?;
    let traces = pickle.sequence(pickle.node(traces)).ok_or(Reason::NoSnapshot)?;
    let segments = match pickle.get(root, "segments") {
        Some(segments) => pickle.sequence(pickle.node(segments)).ok_or_else(|| {
            Reason::Snapshot { place: "segments".into(), what: "is no list".into() }
        })?,
        None => &[],
    };
    let mut reader = Reader {
        pickle,
        builder: Builder::default(),
        sites: Sites::default(),
        annotations: Annotations::read(pickle),
        growth: Vec::new(),
        first_time: None,
        last_time: i64::MIN,
    };
    reader.events(traces)?;
    if reader.builder.is_empty() {
        return Err(Reason::NoHistory);
    }
    let reserved = reader.segments(segments)?;
    reader.builder.set_growth(reader.growth, reserved);
    reader.builder.ends_early();
    Ok(reader.builder)
}

impl Reader<'_> {
    /// Adds the events of all devices, those of each in their order: the earliest first, and at the
    /// same time those of the first device.
    fn events(&mut self, traces: &[Value]) -> Result<(), Reason> {
        let mut lists = Vec::new();
        let mut heads = BinaryHeap::new();
        for (device, &trace) in traces.iter().enumerate() {
            let list = self.pickle.sequence(self.pickle.node(trace));
            let list = list.ok_or_else(|| Place::Device(device).wrong("is no list"))?;
            if let Some(entry) = self.read(list, device, 0)? {
                heads.push(Reverse((entry.time, device, 0)));
            }
            lists.push(list);
        }
        let mut number = 0;
        while let Some(Reverse((_, device, index))) = heads.pop() {
            if let Some(entry) = self.read(lists[device], device, index)? {
                number += 1;
                let done = self.entry(number, device, &entry);
                done.map_err(|reason| Place::Entry(device, index).of(reason))?;
            }
            if let Some(entry) = self.read(lists[device], device, index + 1)? {
                heads.push(Reverse((entry.time, device, index + 1)));
            }
        }
        Ok(())
    }

    /// The entry of a device at an index; none behind the last.
    fn read(&self, list: &[Value], device: usize, index: usize) -> Result<Option<Entry>, Reason> {
        let Some(&entry) = list.get(index) else { return Ok(None) };
        let node = self.pickle.node(entry);
        Entry::read(self.pickle, node, Place::Entry(device, index)).map(Some)
    }

    fn entry(&mut self, number: u64, device: usize, entry: &Entry) -> Result<(), Reason> {
        let time = self.time(entry);
        let action = match entry.kind {
            Kind::Allocate => RowAction::Allocate,
            Kind::Free => RowAction::Free,
            Kind::Failure => RowAction::AllocateFailure,
            Kind::Grow | Kind::Shrink => {
                self.growth.push(Growth {
                    event: self.builder.len(),
                    time,
                    address: entry.address,
                    bytes: entry.size,
                    is_taken: entry.kind == Kind::Grow,
                });
                return Ok(());
            }
            Kind::Annotate => {
                let tag = entry.tag.and_then(|tag| self.pickle.text(tag)).unwrap_or_default();
                let tag = self.builder.tag(site::shortened(&tag))?;
                self.builder.retag(entry.address, tag);
                return Ok(());
            }
            Kind::Other => return Ok(()),
        };
        // A free of a block that was allocated is of that block, whatever size the entry has.
        let is_free = action == RowAction::Free;
        let live = self.builder.size_of(entry.address).filter(|_| is_free);
        let during = self.annotations.at(self.pickle, device, entry.time);
        let text = |node: Option<Node>| {
            node.and_then(|node| self.pickle.text(node)).filter(|text| !text.is_empty())
        };
        let tag = text(entry.tag).or_else(|| text(during)).unwrap_or_default();
        let tag = self.builder.tag(site::shortened(&tag))?;
        let site = self.sites.of(self.pickle, entry.frames, &mut self.builder)?;
        self.builder.add(&Call {
            line: number,
            time,
            pointer: if action == RowAction::AllocateFailure { 0 } else { entry.address },
            size: live.unwrap_or(entry.size),
            stream: entry.stream,
            tag,
            site,
            device: u32::try_from(device).ok(),
            ..Call::new(action)
        })
    }

    /// Nanoseconds since the first event; it never decreases.
    fn time(&mut self, entry: &Entry) -> Option<u64> {
        let time = entry.time?;
        let first = *self.first_time.get_or_insert(time);
        self.last_time = self.last_time.max(time);
        let since = self.last_time.checked_sub(first)?;
        u64::try_from(since).ok()?.checked_mul(1000)
    }

    /// Adds the blocks that are in use in the end and were allocated before the first event.
    /// Returns the bytes of all segments.
    fn segments(&mut self, segments: &[Value]) -> Result<u64, Reason> {
        let mut reserved: u64 = 0;
        for (index, &segment) in segments.iter().enumerate() {
            let place = Place::Segment(index);
            let segment = self.pickle.node(segment);
            let number = |key| entry::number(self.pickle, segment, key, place);
            let total = number("total_size")?.unwrap_or(0);
            reserved = reserved.checked_add(total).ok_or(Reason::LiveOverflow)?;
            let mut address = number("address")?.unwrap_or(0);
            let stream = number("stream")?.unwrap_or(0);
            let device = number("device")?.and_then(|device| u32::try_from(device).ok());
            let blocks = self.pickle.get(segment, "blocks");
            let blocks = blocks.and_then(|blocks| self.pickle.sequence(self.pickle.node(blocks)));
            for (number, &block) in blocks.unwrap_or_default().iter().enumerate() {
                let place = Place::Block(index, number);
                let block = self.pickle.node(block);
                // Old versions have no address here: the blocks lie one behind the other.
                address = entry::number(self.pickle, block, "address", place)?.unwrap_or(address);
                self.block(block, address, stream, device, place)
                    .map_err(|reason| place.of(reason))?;
                let size = entry::number(self.pickle, block, "size", place)?.unwrap_or(0);
                address = address.wrapping_add(size);
            }
        }
        Ok(reserved)
    }

    fn block(
        &mut self,
        block: Node,
        address: u64,
        stream: u64,
        device: Option<u32>,
        place: Place,
    ) -> Result<(), Reason> {
        let state = self.pickle.get(block, "state").map(|state| self.pickle.node(state));
        let state = state.and_then(|state| self.pickle.text(state));
        let is_active = state.is_some_and(|state| state.starts_with("active"));
        if !is_active || self.builder.size_of(address).is_some() {
            return Ok(());
        }
        let bytes = match entry::number(self.pickle, block, "requested_size", place)? {
            Some(bytes) => bytes,
            None => entry::needed(self.pickle, block, "size", place)?,
        };
        let bytes = entry::possible(bytes, place)?;
        if bytes == 0 || address == 0 {
            return Ok(());
        }
        let frames = entry::frames(self.pickle, block);
        let tag = entry::metadata(self.pickle, block).and_then(|tag| self.pickle.text(tag));
        let tag = self.builder.tag(site::shortened(&tag.unwrap_or_default()))?;
        let site = self.sites.of(self.pickle, frames, &mut self.builder)?;
        let stream = self.builder.stream(stream);
        let device = self.builder.device(device);
        self.builder.add_before(Before {
            block: 0,
            size: bytes,
            address,
            stream,
            tag,
            site,
            device,
        })
    }
}
