//! Reads the lines of a log into a trace.

use std::io::{self, BufRead};

use super::build::{Builder, Call, Failure};
use super::clock::Clock;
use super::error::{Compression, Reason};
use super::header::Header;
use super::row::{Row, RowAction};
use super::source::{Line, LineError, Lines};

/// Reads a whole log.
pub(super) fn read(compression: Compression, text: impl BufRead) -> Result<Builder, Failure> {
    let mut lines = Lines::new(text);
    let mut reader = Reader::default();
    let mut header = None;
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => return Err(read_failure(error, compression, reader.builder.len())),
        };
        if line.text.is_empty() {
            continue;
        }
        let Some(columns) = &header else {
            let text = str::from_utf8(line.text).map_err(|_| Reason::NotUtf8);
            let parsed = text.and_then(Header::parse);
            header = Some(parsed.map_err(|reason| at(&line, reason))?);
            continue;
        };
        if let Err(reason) = reader.line(columns, &line) {
            // What is missing is the rest of the last line. If no line precedes it, the error is
            // about this line.
            let is_cut = !line.is_ended && reason.is_of_one_line();
            if !is_cut || reader.builder.is_empty() {
                return Err(at(&line, reason));
            }
            reader.pass_mark().map_err(|reason| at(&line, reason))?;
            reader.builder.ends_early();
        }
    }
    match (header, reader.builder.is_empty()) {
        (None, _) => Err(Reason::Empty.into()),
        (Some(_), true) => Err(Reason::NoEvents.into()),
        (Some(_), false) => Ok(reader.finish()),
    }
}

fn at(line: &Line<'_>, reason: Reason) -> Failure {
    Failure { line: Some(line.number), reason }
}

fn read_failure(error: LineError, compression: Compression, events: usize) -> Failure {
    match error {
        LineError::Read(error) => unreadable(error, compression, events).into(),
        LineError::TooLong(line) => Failure { line: Some(line), reason: Reason::LineTooLong },
    }
}

/// Distinguishes errors of the operating system and of the decompressor.
pub(super) fn unreadable(error: io::Error, compression: Compression, events: usize) -> Reason {
    match (compression, error.kind()) {
        (Compression::Plain, _) => Reason::Read(error),
        _ if error.raw_os_error().is_some() => Reason::Read(error),
        (_, io::ErrorKind::UnexpectedEof) => Reason::Truncated { compression, events },
        _ => Reason::Damaged { compression, detail: error.to_string() },
    }
}

/// What is known after some of the rows.
#[derive(Default)]
struct Reader {
    builder: Builder,
    clock: Clock,
    /// A row that is the end mark if no other follows.
    mark: Option<Mark>,
}

/// What an end mark is as an event.
#[derive(Clone, Copy)]
struct Mark {
    line: u64,
    thread: u64,
    stream: u64,
    time: Option<u64>,
}

impl Reader {
    fn line(&mut self, header: &Header, line: &Line<'_>) -> Result<(), Reason> {
        let text = str::from_utf8(line.text).map_err(|_| Reason::NotUtf8)?;
        let row = Row::parse(header, text)?;
        self.pass_mark()?;
        let time = self.clock.next(&row.time);
        let (number, thread, stream) = (line.number, row.thread, row.stream);
        if matches!(row, Row { action: RowAction::AllocateFailure, pointer: 0, size: 0, .. }) {
            self.mark = Some(Mark { line: number, thread, stream, time });
            return Ok(());
        }
        let (tag, site) = (self.builder.tag(&row.tag)?, self.builder.site(&row.site)?);
        self.builder.add(&Call {
            line: number,
            thread,
            time,
            action: row.action,
            pointer: row.pointer,
            size: row.size,
            stream,
            tag,
            site,
            device: row.device,
        })
    }

    /// Adds the row that looked like an end mark, since another row follows.
    fn pass_mark(&mut self) -> Result<(), Reason> {
        let Some(Mark { line, thread, stream, time }) = self.mark.take() else { return Ok(()) };
        self.builder.add(&Call {
            line,
            thread,
            time,
            stream,
            ..Call::new(RowAction::AllocateFailure)
        })
    }

    fn finish(mut self) -> Builder {
        if self.mark.is_some() {
            self.builder.ended();
        }
        self.builder
    }
}
