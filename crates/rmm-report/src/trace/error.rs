//! Errors of reading a log.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::event::{MAX_EVENTS, MAX_LINE};

/// A log that cannot be used. `Display` is one line, `FILE:LINE: reason`.
#[derive(Debug)]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// The line of the decompressed text, from 1, where the reason is about one line.
    pub line: Option<u64>,
    /// What is wrong.
    pub reason: Reason,
}

/// How a log is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip, one or more members.
    Gzip,
    /// Zstandard, one or more frames.
    Zstd,
}

/// What is wrong with a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The file cannot be opened.
    #[error("cannot open: {0}")]
    Open(io::Error),
    /// The operating system failed to read it.
    #[error("cannot read: {0}")]
    Read(io::Error),
    /// The compressed data end in the middle.
    #[error("the {compression} data end too early; {events} events could be read before that")]
    Truncated {
        /// Which format.
        compression: Compression,
        /// How many events could be read before that.
        events: usize,
    },
    /// The compressed data are not valid.
    #[error("the {compression} data are damaged: {detail}")]
    Damaged {
        /// Which format.
        compression: Compression,
        /// What the decompressor says.
        detail: String,
    },
    /// There is not even a header.
    #[error("the file is empty")]
    Empty,
    /// There is a header and nothing else.
    #[error("there is a header but no event")]
    NoEvents,
    /// The first line lacks one of RMM's columns.
    #[error("expected the header Thread,Time,Action,Pointer,Size,Stream, found {}", Quoted(.found))]
    Header {
        /// The line.
        found: String,
    },
    /// The line has more than [`MAX_LINE`] bytes.
    #[error("the line is longer than {MAX_LINE} bytes")]
    LineTooLong,
    /// There are more than [`MAX_EVENTS`] events.
    #[error("more than {MAX_EVENTS} events")]
    TooManyEvents,
    /// The line is not UTF-8.
    #[error("the line is not UTF-8 text")]
    NotUtf8,
    /// A column that is read is there twice.
    #[error("the header has the column {name} twice")]
    SameColumn {
        /// The column.
        name: &'static str,
    },
    /// The line does not have as many fields as the header.
    #[error("expected {expected} fields, as in the header, found {found}")]
    FieldCount {
        /// How many the header has.
        expected: usize,
        /// How many it has.
        found: usize,
    },
    /// A quoted field has no end in its line.
    #[error("the quote in column {column} is not closed")]
    UnclosedQuote {
        /// The byte of the line at which the field begins, from 1.
        column: usize,
    },
    /// A quoted field goes on behind its end.
    #[error("expected a comma in column {column}, behind the closing quote")]
    TextBehindQuote {
        /// The byte of the line, from 1.
        column: usize,
    },
    /// The different tags and sites are too much text.
    #[error("more than 256 MiB of different tags and sites")]
    TooManyNames,
    /// A field does not have the form it must have.
    #[error("{name} {} is not {expected}", Quoted(.found))]
    Field {
        /// The column.
        name: &'static str,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// The action is none of the three.
    #[error("action {} is none of allocate, free, allocate failure", Quoted(.found))]
    UnknownAction {
        /// What is there.
        found: String,
    },
    /// The size is more than any allocation can have.
    #[error("size {} is more than the {} bytes that an allocation can have", Quoted(.found), isize::MAX)]
    HugeSize {
        /// What is there.
        found: String,
    },
    /// A null pointer for an allocation that is not empty.
    #[error("an allocation of {size} bytes cannot have a null pointer")]
    NullPointer {
        /// Bytes.
        size: u64,
    },
    /// The pointer is live already.
    #[error("allocates {pointer:#x}, which is live since line {line}")]
    AlreadyLive {
        /// The pointer.
        pointer: u64,
        /// Where it was allocated.
        line: u64,
    },
    /// The pointer that is freed is not live.
    #[error("frees {pointer:#x}, which is not live")]
    NotLive {
        /// The pointer.
        pointer: u64,
    },
    /// The pointer is freed with another size than it was allocated with.
    #[error("frees {pointer:#x} with {freed} bytes, but line {line} allocated it with {allocated}")]
    SizeMismatch {
        /// The pointer.
        pointer: u64,
        /// Bytes at the allocation.
        allocated: u64,
        /// Bytes at the free.
        freed: u64,
        /// Where it was allocated.
        line: u64,
    },
    /// The pickle of a snapshot cannot be read.
    #[error("byte {offset}: {what}")]
    Pickle {
        /// Where, from 0, in the decompressed file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The pickle is of something else.
    #[error("the pickle is no snapshot of PyTorch: it has no list device_traces")]
    NoSnapshot,
    /// The snapshot has no events.
    #[error("the snapshot has no events: call torch.cuda.memory._record_memory_history() first")]
    NoHistory,
    /// Something in a snapshot is not as it must be.
    #[error("{place}: {what}")]
    Snapshot {
        /// Where, as in `device_traces[0][17]`.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// The bytes live at once do not fit in 64 bits.
    #[error("the bytes live at once do not fit in 64 bits")]
    LiveOverflow,
}

impl Reason {
    /// Whether it is wrong with the text of a line, whatever stands before it.
    pub(super) fn is_of_one_line(&self) -> bool {
        matches!(
            self,
            Self::NotUtf8
                | Self::FieldCount { .. }
                | Self::UnclosedQuote { .. }
                | Self::Field { .. }
                | Self::UnknownAction { .. }
        )
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.reason)
    }
}

impl Error for TraceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.reason {
            Reason::Open(error) | Reason::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// Text from the file, quoted, without control characters, and cut so that a message stays one
/// readable line.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 60;
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{:?}...", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}
