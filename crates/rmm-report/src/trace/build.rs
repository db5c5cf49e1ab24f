//! Builds a trace from rows: matches frees to allocations, counts live bytes and checks
//! consistency.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Read};
use std::path::PathBuf;

use csv::{ByteRecord, ReaderBuilder, Terminator};

use super::error::{Compression, Reason};
use super::event::{ALIGNMENT, Action, Event, MAX_EVENTS, Trace};
use super::row::{self, Row, RowAction};
use super::source::{self, BoundedLines, LineTooLong};

/// A [`Reason`] and its line; the path is added by the caller.
pub(super) struct Failure {
    pub(super) line: Option<u64>,
    pub(super) reason: Reason,
}

/// Reads a whole log.
pub(super) fn read(input: impl Read) -> Result<Builder, Failure> {
    let (compression, text) =
        source::open(input).map_err(|error| whole_file(Reason::Read(error)))?;
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .quoting(false)
        .terminator(Terminator::Any(b'\n'))
        .from_reader(BoundedLines::new(text));
    let mut record = ByteRecord::new();
    let mut builder = Builder::default();
    let mut header_seen = false;
    while reader
        .read_byte_record(&mut record)
        .map_err(|error| read_failure(error, compression, builder.events.len()))?
    {
        // Every line is ended by a line feed (see `BoundedLines`), so the reader is at the start of
        // the next one.
        let line = reader.position().line() - 1;
        if row::is_blank(&record) {
            continue;
        }
        let done = if header_seen {
            Row::parse(&record).and_then(|row| builder.add(line, row))
        } else {
            header_seen = true;
            row::check_header(&record)
        };
        if let Err(reason) = done {
            // What is missing is the rest of the last line. If no line precedes it, the error is
            // about this line.
            let is_cut = reader.get_ref().unended_line() == Some(line) && reason.is_of_one_line();
            if !is_cut || builder.events.is_empty() {
                return Err(Failure { line: Some(line), reason });
            }
            builder.ends_early = true;
        }
    }
    match (header_seen, builder.events.is_empty()) {
        (false, _) => Err(whole_file(Reason::Empty)),
        (true, true) => Err(whole_file(Reason::NoEvents)),
        (true, false) => Ok(builder),
    }
}

fn whole_file(reason: Reason) -> Failure {
    Failure { line: None, reason }
}

/// Distinguishes errors of the operating system, of the decompressor, and lines that are too long.
fn read_failure(error: csv::Error, compression: Compression, events: usize) -> Failure {
    let error = match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        // Records are read as bytes, of any length: the reader itself has nothing to complain
        // about.
        other => io::Error::other(format!("{other:?}")),
    };
    if let Some(LineTooLong { line }) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return Failure { line: Some(*line), reason: Reason::LineTooLong };
    }
    whole_file(match (compression, error.kind()) {
        (Compression::Plain, _) => Reason::Read(error),
        _ if error.raw_os_error().is_some() => Reason::Read(error),
        (_, io::ErrorKind::UnexpectedEof) => Reason::Truncated { compression, events },
        _ => Reason::Damaged { compression, detail: error.to_string() },
    })
}

/// What is known after some of the rows.
#[derive(Default)]
pub(super) struct Builder {
    events: Vec<Event>,
    threads: Interned,
    streams: Interned,
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
    ends_early: bool,
}

/// A live block.
#[derive(Clone, Copy)]
struct Live {
    block: u32,
    size: u64,
    /// Where it was allocated, for messages.
    line: u64,
}

impl Builder {
    fn add(&mut self, line: u64, row: Row) -> Result<(), Reason> {
        if self.events.len() == MAX_EVENTS {
            return Err(Reason::TooManyEvents);
        }
        let action = match row.action {
            RowAction::Allocate => self.allocate(line, row.pointer, row.size)?,
            RowAction::Free => self.free(row.pointer, row.size)?,
            RowAction::AllocateFailure => Action::AllocateFailure { size: row.size },
        };
        let thread = self.threads.index(row.thread);
        let stream = self.streams.index(row.stream);
        self.events.push(Event { line, thread, stream, action });
        Ok(())
    }

    fn allocate(&mut self, line: u64, pointer: u64, size: u64) -> Result<Action, Reason> {
        // The aligned sum is never the smaller one, so only this one can overflow.
        let live_aligned =
            self.live_aligned.checked_add(aligned(size)).ok_or(Reason::LiveOverflow)?;
        let block = self.free_slots.last().copied().unwrap_or(self.blocks);
        let new = Live { block, size, line };
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

    fn free(&mut self, pointer: u64, size: u64) -> Result<Action, Reason> {
        let found = if size == 0 { self.take_empty(pointer) } else { self.take(pointer, size) };
        let Some(Live { block, .. }) = found else {
            return Err(self.not_freeable(pointer, size));
        };
        self.free_slots.push(block);
        self.live_bytes -= size;
        self.live_aligned -= aligned(size);
        Ok(Action::Free { block, size })
    }

    fn take(&mut self, pointer: u64, size: u64) -> Option<Live> {
        match self.live.entry(pointer) {
            Entry::Occupied(entry) if entry.get().size == size => Some(entry.remove()),
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
        Trace {
            path,
            events: self.events,
            threads: self.threads.values,
            streams: self.streams.values,
            blocks: self.blocks,
            peak_live: self.peak_live,
            peak_live_aligned: self.peak_live_aligned,
            peak_event: self.peak_event,
            ends_early: self.ends_early,
        }
    }
}

/// A size rounded up to what the block takes; no overflow, as sizes stay below `isize::MAX`.
fn aligned(size: u64) -> u64 {
    size.next_multiple_of(ALIGNMENT)
}

/// Values numbered in order of appearance.
#[derive(Default)]
struct Interned {
    values: Vec<u64>,
    indices: HashMap<u64, u32>,
}

impl Interned {
    fn index(&mut self, value: u64) -> u32 {
        // There are at most as many values as events, of which there are far fewer than 2^32.
        let next = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        *self.indices.entry(value).or_insert_with(|| {
            self.values.push(value);
            next
        })
    }
}
