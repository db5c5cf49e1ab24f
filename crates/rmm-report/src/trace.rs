//! Allocation traces: RMM's log files and snapshots of PyTorch, read into events that a replay can
//! run without a look-up.
//!
//! The text is what RMM's logging adaptor writes: the header
//! `Thread,Time,Action,Pointer,Size,Stream`, then one row per call. The columns may be in any order
//! and more of them may be there: `Tag`, `Site` and `Device` are read, others are passed over. A
//! field may be quoted as RFC 4180 says, within its line.
//!
//! A snapshot is what `torch.cuda.memory._dump_snapshot` writes: a pickle, of protocol 2 to 5. Its
//! events are those of PyTorch's allocator, with the blocks that were live before the recording. No
//! code that a pickle names is run; a pickle that names some is refused.
//!
//! What a file is, and whether it is compressed with gzip or zstd, is recognized by the first bytes
//! and not by the file's name.
//!
//! Input is untrusted. Memory is bounded by the number of events, of which at most [`MAX_EVENTS`]
//! are taken, by the text of different tags and sites, at most 256 MiB, and by the length of a
//! line, at most [`MAX_LINE`] bytes; that of a snapshot by its own length. Decompression streams,
//! so a file that would unpack to terabytes is refused at the first of these bounds.

mod build;
mod clock;
mod columns;
mod data;
mod error;
mod event;
mod fields;
mod header;
mod names;
mod pickle;
mod read;
mod row;
mod snapshot;
mod source;

use std::fs::File;
use std::io::{BufRead as _, Read};
use std::path::{Path, PathBuf};

pub use data::{Before, Growth, NO_DEVICE, Trace};
pub use error::{Compression, Reason, TraceError};
pub use event::{ALIGNMENT, Action, Event, MAX_EVENTS, MAX_LINE};

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
    match build(input) {
        Ok(built) => Ok(built.into_trace(path)),
        Err(build::Failure { line, reason }) => Err(TraceError { path, line, reason }),
    }
}

/// Reads what the first bytes say.
fn build(input: impl Read) -> Result<build::Builder, build::Failure> {
    let (compression, mut text) = source::open(input).map_err(Reason::Read)?;
    let unreadable = |error| read::unreadable(error, compression, 0);
    let first = text.fill_buf().map_err(unreadable)?.first().copied();
    if first != Some(pickle::FIRST_BYTE) {
        return read::read(compression, text);
    }
    let pickle = pickle::read(text).map_err(|error| match error {
        pickle::PickleError::Read(error) => unreadable(error),
        pickle::PickleError::At(offset, what) => Reason::Pickle { offset, what },
    })?;
    Ok(snapshot::read(&pickle)?)
}
