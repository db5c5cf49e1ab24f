//! Pickles of plain data: dictionaries, lists, tuples, texts, numbers, `None` and truth values.
//!
//! Python's `pickle` runs code that a file names. This reader has no such operation: each opcode
//! that would make or call something is an error that names it. It is written by hand rather than
//! taken from `serde-pickle`, because that copies a memoised value at each use. In a snapshot all
//! events of a call site share one list of frames, so the copies would be many times the file, and
//! a few bytes that double a list thirty times would fill any memory. Here values are numbers of
//! nodes: a shared value is stored once, and one that holds itself is harmless to read.
//!
//! Memory is bounded by the bytes read, 6 for each, and by 4 GiB in all.

mod opcode;
mod read;
mod values;

pub(super) use read::{PickleError, read};
pub(super) use values::{Node, Pickle, Value};

/// How a pickle of protocol 2 and later begins; no text does.
pub(super) const FIRST_BYTE: u8 = 0x80;
