//! A trace as one of Perfetto.

mod messages;
mod replayed;

use std::io::{self, Write};

use prost::Message as _;

use super::heap::Heap;
use crate::trace::{Action, Growth, NO_DEVICE, Trace};
use messages::{
    CounterDescriptor, DebugAnnotation, TYPE_COUNTER, TYPE_INSTANT, TracePacket, TrackDescriptor,
    TrackEvent, UNIT_SIZE_BYTES,
};

pub use replayed::perfetto_of_replay;

/// The tracks; those of tags follow.
const ROOT: u64 = 0x726d_6d00_0000_0001;
const LIVE: u64 = ROOT + 1;
const RESERVED: u64 = ROOT + 2;
const FAILURES: u64 = ROOT + 3;
const GROWTH: u64 = ROOT + 4;
const TAGS: u64 = ROOT + 16;

/// What stands before each packet of a trace: field 1, with a length.
const PACKET: u8 = 1 << 3 | 2;

/// Writes a trace in Perfetto's protobuf format.
///
/// One group of tracks has the counters `live`, `live: TAG` for each tag, and `reserved` where a
/// snapshot knows it, and the requests that failed and the growth of the allocator as instants. The
/// timestamps are the log's times, in nanoseconds since the first event. If these are unknown, an
/// event is a nanosecond, and the name of the group says so.
///
/// # Errors
/// Those of the writer.
pub fn perfetto(trace: &Trace, to: &mut dyn Write) -> io::Result<()> {
    let mut packets = Packets { to, buffer: Vec::new() };
    descriptors(trace, &mut packets)?;
    let mut heap = Heap::new(trace);
    let mut of_tags = vec![0_i64; trace.tags.len()];
    for block in heap.blocks() {
        add(&mut of_tags, block.tag, signed(block.size));
    }
    packets.counter(0, LIVE, signed(heap.usage.bytes))?;
    for (tag, &bytes) in (0..).zip(&of_tags).skip(1).filter(|&(_, &bytes)| bytes != 0) {
        packets.counter(0, TAGS + tag, bytes)?;
    }
    let mut reserved = trace.reserved_before;
    let mut growth = trace.growth.iter().peekable();
    if growth.peek().is_some() || reserved > 0 {
        packets.counter(0, RESERVED, signed(reserved))?;
    }
    for (index, event) in trace.events.iter().enumerate() {
        while let Some(change) = growth.next_if(|change| change.event <= index) {
            packets.growth(trace, change, &mut reserved)?;
        }
        let time = trace.time(index).unwrap_or(index as u64);
        if let Action::AllocateFailure { size } = event.action {
            packets.failure(trace, index, time, size)?;
        }
        if let Some(block) = heap.step(trace, index) {
            let is_allocation = matches!(event.action, Action::Allocate { .. });
            let bytes = signed(block.size);
            let change = if is_allocation { bytes } else { -bytes };
            packets.counter(time, LIVE, signed(heap.usage.bytes))?;
            let of_tag = add(&mut of_tags, block.tag, change);
            if block.tag != 0 {
                packets.counter(time, TAGS + u64::from(block.tag), of_tag)?;
            }
        }
    }
    growth.try_for_each(|change| packets.growth(trace, change, &mut reserved))
}

/// Names the tracks.
fn descriptors(trace: &Trace, packets: &mut Packets<'_>) -> io::Result<()> {
    let file = trace.path.file_name().unwrap_or(trace.path.as_os_str()).to_string_lossy();
    let unit = if trace.has_times() { "" } else { " (times unknown: 1 ns is one event)" };
    packets.descriptor(ROOT, None, format!("memory: {file}{unit}"), false)?;
    packets.descriptor(LIVE, Some(ROOT), "live".to_owned(), true)?;
    for (tag, name) in (0..).zip(&trace.tags).skip(1) {
        packets.descriptor(TAGS + tag, Some(ROOT), format!("live: {name}"), true)?;
    }
    if !trace.growth.is_empty() || trace.reserved_before > 0 {
        packets.descriptor(RESERVED, Some(ROOT), "reserved".to_owned(), true)?;
        packets.descriptor(GROWTH, Some(ROOT), "growth".to_owned(), false)?;
    }
    packets.descriptor(FAILURES, Some(ROOT), "failures".to_owned(), false)
}

/// Adds to a tag's bytes; returns the sum.
fn add(of_tags: &mut [i64], tag: u32, change: i64) -> i64 {
    let Some(bytes) = of_tags.get_mut(tag as usize) else { return 0 };
    *bytes = bytes.saturating_add(change);
    *bytes
}

/// Writes packets, one by one.
struct Packets<'a> {
    to: &'a mut dyn Write,
    buffer: Vec<u8>,
}

impl Packets<'_> {
    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(1), ..packet };
        self.buffer.clear();
        self.buffer.push(PACKET);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.to.write_all(&self.buffer)
    }

    fn descriptor(
        &mut self,
        uuid: u64,
        parent_uuid: Option<u64>,
        name: String,
        is_counter: bool,
    ) -> io::Result<()> {
        let counter = is_counter.then_some(CounterDescriptor { unit: Some(UNIT_SIZE_BYTES) });
        let track = TrackDescriptor { uuid: Some(uuid), name: Some(name), parent_uuid, counter };
        self.packet(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    fn event(&mut self, time: u64, event: TrackEvent) -> io::Result<()> {
        self.packet(TracePacket {
            timestamp: Some(time),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    fn counter(&mut self, time: u64, track: u64, value: i64) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(TYPE_COUNTER),
            track_uuid: Some(track),
            counter_value: Some(value),
            ..TrackEvent::default()
        };
        self.event(time, event)
    }

    fn instant(
        &mut self,
        time: u64,
        track: u64,
        name: String,
        debug_annotations: Vec<DebugAnnotation>,
    ) -> io::Result<()> {
        let event = TrackEvent {
            debug_annotations,
            r#type: Some(TYPE_INSTANT),
            track_uuid: Some(track),
            name: Some(name),
            counter_value: None,
        };
        self.event(time, event)
    }

    fn failure(&mut self, trace: &Trace, index: usize, time: u64, size: u64) -> io::Result<()> {
        let event = &trace.events[index];
        let stream = trace.streams.get(event.stream as usize).copied().unwrap_or(0);
        let mut facts = vec![
            number("bytes", size),
            number("event", index as u64),
            text("stream", format!("{stream:#x}")),
        ];
        let names =
            [("tag", &trace.tags, trace.tag(index)), ("site", &trace.sites, trace.site(index))];
        for (key, names, name) in names {
            let name = names.get(name as usize).filter(|name| !name.is_empty());
            facts.extend(name.map(|name| text(key, name.clone())));
        }
        let device = trace.devices.get(trace.device(index) as usize).copied();
        let device = device.filter(|&ordinal| ordinal != NO_DEVICE);
        facts.extend(device.map(|ordinal| number("device", ordinal.into())));
        self.instant(time, FAILURES, format!("failed: {size} bytes"), facts)
    }

    fn growth(&mut self, trace: &Trace, change: &Growth, reserved: &mut u64) -> io::Result<()> {
        let &Growth { bytes, address, event, .. } = change;
        // Without times an event is a nanosecond, also where the change has a time.
        let time = change.time.filter(|_| trace.has_times()).unwrap_or(event as u64);
        let verb = if change.is_taken { "grows" } else { "shrinks" };
        *reserved = if change.is_taken {
            reserved.saturating_add(bytes)
        } else {
            reserved.saturating_sub(bytes)
        };
        let facts = vec![number("bytes", bytes), text("address", format!("{address:#x}"))];
        self.instant(time, GROWTH, format!("{verb} by {bytes} bytes"), facts)?;
        self.counter(time, RESERVED, signed(*reserved))
    }
}

fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), uint_value: Some(value), string_value: None }
}

fn text(name: &str, value: String) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), uint_value: None, string_value: Some(value) }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "perfetto/tests.rs"]
mod tests;
