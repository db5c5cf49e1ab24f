//! One row of a log, parsed.

use std::borrow::Cow;

use super::error::Reason;
use super::fields::Fields;
use super::header::{Header, NAMES};

/// The largest size of an allocation, as for `std::alloc::Layout`.
const MAX_SIZE: u64 = isize::MAX as u64;

/// A row whose fields are well formed; those that the log does not have are empty.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) thread: u64,
    pub(super) time: Cow<'a, str>,
    pub(super) action: RowAction,
    pub(super) pointer: u64,
    pub(super) size: u64,
    pub(super) stream: u64,
    pub(super) tag: Cow<'a, str>,
    pub(super) site: Cow<'a, str>,
    pub(super) device: Option<u32>,
}

/// What the action column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowAction {
    Allocate,
    Free,
    AllocateFailure,
}

impl<'a> Row<'a> {
    /// Reads the fields of a line.
    pub(super) fn parse(header: &Header, line: &'a str) -> Result<Self, Reason> {
        let mut fields = [const { Cow::Borrowed("") }; NAMES.len()];
        let mut count = 0;
        for field in Fields::new(line) {
            let field = field?;
            if let Some(&Some(place)) = header.places.get(count) {
                fields[place] = field;
            }
            count += 1;
        }
        if count != header.fields() {
            return Err(Reason::FieldCount { expected: header.fields(), found: count });
        }
        let [thread, time, action, pointer, bytes, stream, tag, site, device] = fields;
        Ok(Self {
            thread: decimal("thread", &thread)?,
            time,
            action: match &*action {
                "allocate" => RowAction::Allocate,
                "free" => RowAction::Free,
                "allocate failure" => RowAction::AllocateFailure,
                _ => return Err(Reason::UnknownAction { found: action.into_owned() }),
            },
            pointer: parse_pointer(&pointer)?,
            size: parse_size(&bytes)?,
            stream: parse_stream(&stream)?,
            tag,
            site,
            device: parse_device(&device)?,
        })
    }
}

fn decimal(name: &'static str, text: &str) -> Result<u64, Reason> {
    // `u64::from_str` takes a leading plus sign; a log has none.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or_else(|| field(name, text, "a decimal number of at most 64 bits"))
}

fn hexadecimal(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u64::from_str_radix(digits, 16).ok())?
}

fn parse_pointer(text: &str) -> Result<u64, Reason> {
    match text {
        // glibc, and everyone else.
        "(nil)" | "0" => Some(0),
        _ => text.strip_prefix("0x").and_then(hexadecimal),
    }
    .ok_or_else(|| field("pointer", text, "0x and at most 16 hexadecimal digits, nor (nil)"))
}

fn parse_stream(text: &str) -> Result<u64, Reason> {
    hexadecimal(text.strip_prefix("0x").unwrap_or(text))
        .ok_or_else(|| field("stream", text, "a hexadecimal number of at most 64 bits"))
}

fn parse_size(text: &str) -> Result<u64, Reason> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(field("size", text, "a decimal number of bytes"));
    }
    // All digits, so the only way to fail is to be too large.
    match text.parse() {
        Ok(size) if size <= MAX_SIZE => Ok(size),
        _ => Err(Reason::HugeSize { found: text.to_owned() }),
    }
}

fn parse_device(text: &str) -> Result<Option<u32>, Reason> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let device = text.parse().ok().filter(|_| digits);
    device.map(Some).ok_or_else(|| field("device", text, "the number of a device"))
}

fn field(name: &'static str, found: &str, expected: &'static str) -> Reason {
    Reason::Field { name, found: found.to_owned(), expected }
}
