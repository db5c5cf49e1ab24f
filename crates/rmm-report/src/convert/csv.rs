//! A trace as a log of RMM's form with all columns.

use std::io::{self, Write};

use crate::trace::{Action, NO_DEVICE, Trace};

/// The columns.
const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream,Tag,Site,Device";

const DAY: u64 = 24 * 60 * 60;

/// Writes a trace as a log. What was live before the first event is allocated in the first rows, so
/// that any reader takes it. Times of day begin with midnight.
///
/// The growth of a snapshot's allocator has no place in a log and is left out.
///
/// # Errors
/// Those of the writer.
pub fn csv(trace: &Trace, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "{HEADER}")?;
    let mut row = Row { trace, thread: trace.threads.first().copied().unwrap_or(0), time: None };
    row.time = trace.time(0);
    for before in &trace.before {
        let names = (before.tag, before.site, before.device);
        row.write(to, "allocate", before.address, before.size, before.stream, names)?;
    }
    for (index, event) in trace.events.iter().enumerate() {
        row.thread = trace.threads.get(event.thread as usize).copied().unwrap_or(0);
        row.time = trace.time(index);
        let (action, size) = match event.action {
            Action::Allocate { size, .. } => ("allocate", size),
            Action::Free { size, .. } => ("free", size),
            Action::AllocateFailure { size } => ("allocate failure", size),
        };
        let names = (trace.tag(index), trace.site(index), trace.device(index));
        row.write(to, action, trace.address(index), size, event.stream, names)?;
    }
    if trace.ended {
        row.write(to, "allocate failure", 0, 0, 0, (0, 0, 0))?;
    }
    Ok(())
}

/// What the next row begins with.
struct Row<'a> {
    trace: &'a Trace,
    thread: u64,
    time: Option<u64>,
}

impl Row<'_> {
    fn write(
        &self,
        to: &mut dyn Write,
        action: &str,
        address: u64,
        size: u64,
        stream: u32,
        (tag, called_at, device): (u32, u32, u32),
    ) -> io::Result<()> {
        let Self { trace, thread, time } = *self;
        write!(to, "{thread},")?;
        if let Some(nanos) = time {
            let (seconds, micros) = (nanos / 1_000_000_000 % DAY, nanos / 1000 % 1_000_000);
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            write!(to, "{hours:02}:{minutes:02}:{seconds:02}.{micros:06}")?;
        }
        match address {
            0 => write!(to, ",{action},(nil),{size}")?,
            _ => write!(to, ",{action},{address:#x},{size}")?,
        }
        match trace.streams.get(stream as usize).copied().unwrap_or(0) {
            0 => write!(to, ",0")?,
            handle => write!(to, ",{handle:#x}")?,
        }
        for (names, name) in [(&trace.tags, tag), (&trace.sites, called_at)] {
            write!(to, ",{}", quoted(names.get(name as usize).map_or("", String::as_str)))?;
        }
        match trace.devices.get(device as usize) {
            None | Some(&NO_DEVICE) => writeln!(to, ","),
            Some(ordinal) => writeln!(to, ",{ordinal}"),
        }
    }
}

/// A field as RFC 4180 wants it, on one line.
fn quoted(text: &str) -> String {
    let text = text.replace(char::is_control, " ");
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
