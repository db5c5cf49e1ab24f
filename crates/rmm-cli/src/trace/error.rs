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
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The file cannot be opened.
    Open(io::Error),
    /// The operating system failed to read it.
    Read(io::Error),
    /// The compressed data end in the middle.
    Truncated {
        /// Which format.
        compression: Compression,
        /// How many events could be read before that.
        events: usize,
    },
    /// The compressed data are not valid.
    Damaged {
        /// Which format.
        compression: Compression,
        /// What the decompressor says.
        detail: String,
    },
    /// There is not even a header.
    Empty,
    /// There is a header and nothing else.
    NoEvents,
    /// The first line is not RMM's header.
    Header {
        /// The line.
        found: String,
    },
    /// The line has more than [`MAX_LINE`] bytes.
    LineTooLong,
    /// There are more than [`MAX_EVENTS`] events.
    TooManyEvents,
    /// The line is not UTF-8.
    NotUtf8,
    /// The line does not have six fields.
    FieldCount {
        /// How many it has.
        found: usize,
    },
    /// A field does not have the form it must have.
    Field {
        /// The column.
        name: &'static str,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// The action is none of the three.
    UnknownAction {
        /// What is there.
        found: String,
    },
    /// The size is more than any allocation can have.
    HugeSize {
        /// What is there.
        found: String,
    },
    /// A null pointer for an allocation that is not empty.
    NullPointer {
        /// Bytes.
        size: u64,
    },
    /// The pointer is live already.
    AlreadyLive {
        /// The pointer.
        pointer: u64,
        /// Where it was allocated.
        line: u64,
    },
    /// The pointer that is freed is not live.
    NotLive {
        /// The pointer.
        pointer: u64,
    },
    /// The pointer is freed with another size than it was allocated with.
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
    /// The bytes live at once do not fit in 64 bits.
    LiveOverflow,
}

impl Reason {
    /// Whether it is wrong with the text of a line, whatever stands before it.
    pub(super) fn is_of_one_line(&self) -> bool {
        matches!(
            self,
            Self::NotUtf8
                | Self::FieldCount { .. }
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => write!(f, "cannot open: {error}"),
            Self::Read(error) => write!(f, "cannot read: {error}"),
            Self::Truncated { compression, events } => {
                write!(
                    f,
                    "the {compression} data end too early; {events} events could be read before that"
                )
            }
            Self::Damaged { compression, detail } => {
                write!(f, "the {compression} data are damaged: {detail}")
            }
            Self::Empty => f.write_str("the file is empty"),
            Self::NoEvents => f.write_str("there is a header but no event"),
            Self::Header { found } => {
                write!(
                    f,
                    "expected the header Thread,Time,Action,Pointer,Size,Stream, found {}",
                    Quoted(found)
                )
            }
            Self::LineTooLong => write!(f, "the line is longer than {MAX_LINE} bytes"),
            Self::TooManyEvents => write!(f, "more than {MAX_EVENTS} events"),
            Self::NotUtf8 => f.write_str("the line is not UTF-8 text"),
            Self::FieldCount { found } => {
                write!(
                    f,
                    "expected the 6 fields Thread,Time,Action,Pointer,Size,Stream, found {found}"
                )
            }
            Self::Field { name, found, expected } => {
                write!(f, "{name} {} is not {expected}", Quoted(found))
            }
            Self::UnknownAction { found } => {
                write!(f, "action {} is none of allocate, free, allocate failure", Quoted(found))
            }
            Self::HugeSize { found } => {
                write!(
                    f,
                    "size {} is more than the {} bytes that an allocation can have",
                    Quoted(found),
                    isize::MAX
                )
            }
            Self::NullPointer { size } => {
                write!(f, "an allocation of {size} bytes cannot have a null pointer")
            }
            Self::AlreadyLive { pointer, line } => {
                write!(f, "allocates {pointer:#x}, which is live since line {line}")
            }
            Self::NotLive { pointer } => write!(f, "frees {pointer:#x}, which is not live"),
            Self::SizeMismatch { pointer, allocated, freed, line } => {
                write!(
                    f,
                    "frees {pointer:#x} with {freed} bytes, but line {line} allocated it with {allocated}"
                )
            }
            Self::LiveOverflow => f.write_str("the bytes live at once do not fit in 64 bits"),
        }
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
