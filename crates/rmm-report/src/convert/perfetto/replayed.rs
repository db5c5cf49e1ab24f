//! What resources did that a trace was replayed against, beside the trace.

use std::io::{self, Write};

use super::messages::{TYPE_SLICE_BEGIN, TYPE_SLICE_END, TrackEvent};
use super::{Packets, ROOT, number, perfetto, signed, text};
use crate::format;
use crate::page::View;
use crate::trace::Trace;

/// The tracks of the first resource; those of each further one are eight later.
const RESOURCES: u64 = ROOT + (1 << 40);
const TRACKS: u64 = 8;

/// Writes a trace as [`perfetto`] does, and beside it each resource that it was replayed against:
/// the counter `held`, what it took from the driver and returned (`growth`), where it made streams
/// wait for others and the calling thread for the device as slices, and the requests that failed.
///
/// A slice lasts from the event before to the one in which the replay did it: the program's own
/// times are those of the log, and in one of its calls this has happened. On the software device no
/// other duration is known.
///
/// # Errors
/// Those of the writer.
pub fn perfetto_of_replay(trace: &Trace, views: &[View], to: &mut dyn Write) -> io::Result<()> {
    perfetto(trace, to)?;
    let mut packets = Packets { to, buffer: Vec::new() };
    for (index, view) in (0..).zip(views) {
        packets.replayed(trace, view, RESOURCES + index * TRACKS)?;
    }
    Ok(())
}

impl Packets<'_> {
    fn replayed(&mut self, trace: &Trace, view: &View, group: u64) -> io::Result<()> {
        let [held, growth, waits, host_waits, failures] =
            [1, 2, 3, 4, 5].map(|track| group + track);
        let name = view.resource.as_deref().unwrap_or("recorded");
        self.descriptor(group, None, format!("memory: replayed on {name}"), false)?;
        self.descriptor(held, Some(group), "held".to_owned(), true)?;
        let slices = [
            (growth, "growth"),
            (waits, "waits of streams"),
            (host_waits, "waits of the program"),
            (failures, "failures"),
        ];
        for (track, name) in slices {
            self.descriptor(track, Some(group), name.to_owned(), false)?;
        }
        let mut before = 0;
        for &(position, bytes) in view.reserved.iter().flatten() {
            let (from, to) = call(trace, position);
            let name = match bytes.checked_sub(before) {
                Some(taken) => format!("grows by {taken} bytes"),
                None => format!("shrinks by {} bytes", before - bytes),
            };
            // What is held before the first event was not taken in one.
            if position > 0 && bytes != before {
                self.slice((from, to), growth, name, position)?;
            }
            self.counter(to, held, signed(bytes))?;
            before = bytes;
        }
        for &(position, count) in &view.waits {
            let name = format!("{} of streams", format::count(count, "wait"));
            self.slice(call(trace, position), waits, name, position)?;
        }
        for &(position, count) in &view.host_waits {
            let name = format!("{} for the device", format::count(count, "wait"));
            self.slice(call(trace, position), host_waits, name, position)?;
        }
        for failure in &view.failures {
            let (_, at) = call(trace, failure.position);
            let facts = vec![
                number("bytes", failure.size),
                number("event", failure.position.into()),
                text("error", failure.text.clone()),
            ];
            self.instant(at, failures, format!("failed: {} bytes", failure.size), facts)?;
        }
        Ok(())
    }

    fn slice(
        &mut self,
        (from, to): (u64, u64),
        track: u64,
        name: String,
        position: u32,
    ) -> io::Result<()> {
        let begin = TrackEvent {
            debug_annotations: vec![number("event", position.into())],
            r#type: Some(TYPE_SLICE_BEGIN),
            track_uuid: Some(track),
            name: Some(name),
            counter_value: None,
        };
        self.event(from, begin)?;
        let end = TrackEvent {
            r#type: Some(TYPE_SLICE_END),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        self.event(to, end)
    }
}

/// The times of the event before a position's and of that event itself.
fn call(trace: &Trace, position: u32) -> (u64, u64) {
    let time = |position: u32| match position.checked_sub(1) {
        None => 0,
        Some(index) => trace.time(index as usize).unwrap_or_else(|| index.into()),
    };
    (time(position.saturating_sub(1)), time(position))
}
