//! One row of a log, parsed.

use csv::ByteRecord;

use super::error::Reason;

/// The columns, as RMM names them.
const HEADER: [&str; 6] = ["Thread", "Time", "Action", "Pointer", "Size", "Stream"];

/// The largest size of an allocation, as for `std::alloc::Layout`.
const MAX_SIZE: u64 = isize::MAX as u64;

/// A row whose fields are well formed.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) thread: u64,
    pub(super) action: RowAction,
    pub(super) pointer: u64,
    pub(super) size: u64,
    pub(super) stream: u64,
}

/// What the third column says.
#[derive(Clone, Copy)]
pub(super) enum RowAction {
    Allocate,
    Free,
    AllocateFailure,
}

impl Row {
    /// Reads the fields of a record. The time is not looked at: its form differs between writers.
    pub(super) fn parse(record: &ByteRecord) -> Result<Self, Reason> {
        let [thread, _time, action, pointer, size, stream] = fields(record)?;
        Ok(Self {
            thread: decimal("thread", thread)?,
            action: match action {
                "allocate" => RowAction::Allocate,
                "free" => RowAction::Free,
                "allocate failure" => RowAction::AllocateFailure,
                _ => return Err(Reason::UnknownAction { found: action.to_owned() }),
            },
            pointer: parse_pointer(pointer)?,
            size: parse_size(size)?,
            stream: parse_stream(stream)?,
        })
    }
}

/// Checks the first record of a log.
pub(super) fn check_header(record: &ByteRecord) -> Result<(), Reason> {
    if record
        .iter()
        .enumerate()
        .all(|(i, field)| HEADER.get(i).is_some_and(|name| name.as_bytes() == trimmed(field)))
        && record.len() == HEADER.len()
    {
        return Ok(());
    }
    let line = record.iter().map(trimmed).collect::<Vec<_>>().join(&b',');
    Err(String::from_utf8(line).map_or(Reason::NotUtf8, |found| Reason::Header { found }))
}

/// Whether the record is an empty line. The CSV reader skips those with a bare line feed, not those
/// with CR LF.
pub(super) fn is_blank(record: &ByteRecord) -> bool {
    record.len() == 1 && record.get(0).is_some_and(|field| trimmed(field).is_empty())
}

/// A field without the carriage return that the last one has in a file with CR LF line ends.
fn trimmed(field: &[u8]) -> &[u8] {
    field.strip_suffix(b"\r").unwrap_or(field)
}

fn fields(record: &ByteRecord) -> Result<[&str; 6], Reason> {
    let mut fields = [""; 6];
    for (i, field) in record.iter().enumerate() {
        let text = std::str::from_utf8(trimmed(field)).map_err(|_| Reason::NotUtf8)?;
        if let Some(slot) = fields.get_mut(i) {
            *slot = text;
        }
    }
    if record.len() == fields.len() {
        Ok(fields)
    } else {
        Err(Reason::FieldCount { found: record.len() })
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

fn field(name: &'static str, found: &str, expected: &'static str) -> Reason {
    Reason::Field { name, found: found.to_owned(), expected }
}
