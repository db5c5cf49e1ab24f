//! Allocation traces: RMM's log files, read into events that a replay can run without a look-up.
//!
//! The text is what RMM's logging adaptor writes: the header
//! `Thread,Time,Action,Pointer,Size,Stream`, then one row per call. The columns may be in any order
//! and more of them may be there: `Tag`, `Site` and `Device` are read, others are passed over. A
//! field may be quoted as RFC 4180 says, within its line. The text may be compressed with gzip or
//! zstd, which is recognized by the first bytes and not by the file's name.
//!
//! Input is untrusted. Memory is bounded by the number of events, of which at most [`MAX_EVENTS`]
//! are taken, by the text of different tags and sites, at most 256 MiB, and by the length of a
//! line, at most [`MAX_LINE`] bytes; decompression streams, so a file that would unpack to
//! terabytes is refused at the first of these bounds.

mod build;
mod clock;
mod columns;
mod error;
mod event;
mod fields;
mod header;
mod names;
mod read;
mod row;
mod source;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::{Compression, Reason, TraceError};
pub use event::{ALIGNMENT, Action, Before, Event, MAX_EVENTS, MAX_LINE, NO_DEVICE, Trace};

/// Reads the log at `path`.
///
/// # Errors
/// Where the file cannot be read or is not a consistent log, a [`TraceError`] that names the file,
/// the line and the reason.
pub fn read(path: &Path) -> Result<Trace, TraceError> {
    match File::open(path) {
        Ok(file) => read_from(path, file),
        Err(error) => {
            Err(TraceError { path: path.to_owned(), line: None, reason: Reason::Open(error) })
        }
    }
}

/// Reads a log from anything; `name` stands for the file in errors and in [`Trace::path`].
///
/// The input is buffered here. Takes time linear in the decompressed text.
///
/// # Errors
/// As for [`read`].
pub fn read_from(name: impl Into<PathBuf>, input: impl Read) -> Result<Trace, TraceError> {
    let path = name.into();
    let read = || {
        let (compression, text) = source::open(input)
            .map_err(|error| build::Failure { line: None, reason: Reason::Read(error) })?;
        read::read(compression, text)
    };
    match read() {
        Ok(built) => Ok(built.into_trace(path)),
        Err(build::Failure { line, reason }) => Err(TraceError { path, line, reason }),
    }
}
