//! Comparison of two allocation logs.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;

/// The handles of the default streams, which are the same in every process: null, the legacy one,
/// the thread's own.
const DEFAULT_STREAMS: [&str; 3] = ["0", "0x1", "0x2"];

/// How many rows that differ are shown.
const SHOWN: usize = 10;

/// What two logs have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Matched {
    /// Rows below the header.
    pub(crate) rows: usize,
    /// Threads in them.
    pub(crate) threads: usize,
    /// Streams in them, default streams too.
    pub(crate) streams: usize,
    /// Allocations that succeeded, those of no bytes left out.
    pub(crate) blocks: usize,
}

/// Why two logs are not of the same program, in text for a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mismatch(String);

/// Whether two logs have the same columns, rows and formats, but for addresses, times, threads and
/// the handles of streams. Those have to be well formed, and are compared by which row means which
/// block, thread and stream.
///
/// # Errors
/// If they differ, or one of them is not as RMM writes them.
pub(crate) fn compare(theirs: &str, ours: &str) -> Result<Matched, Mismatch> {
    let of = |whose: &str, log| {
        Log::read(log).map_err(|problem| Mismatch(format!("{whose} log: {problem}")))
    };
    let (theirs, ours) = (of("their", theirs)?, of("our", ours)?);
    let length = theirs.lines.len().max(ours.lines.len());
    let pairs = (0..length).map(|row| (row + 1, theirs.line(row), ours.line(row)));
    let different: Vec<_> = pairs.filter(|(_, theirs, ours)| theirs != ours).collect();
    if different.is_empty() {
        return Ok(ours.counts());
    }
    let shown = different.iter().take(SHOWN).map(|(line, theirs, ours)| {
        format!("\nline {line}:\n  theirs: {theirs}\n  ours:   {ours}")
    });
    let more = different.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    let text = format!("{} of {length} lines differ", different.len());
    Err(Mismatch(text + &shown.collect::<String>() + &more))
}

impl fmt::Display for Matched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, threads, streams, blocks } = self;
        write!(f, "the same {rows} rows: {threads} threads, {streams} streams, {blocks} blocks")
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mismatch {}

/// A log whose addresses, times, threads and streams are replaced by what does not change from run
/// to run.
#[derive(Default)]
struct Log {
    lines: Vec<String>,
    threads: Numbers,
    streams: Numbers,
    /// The live blocks by address.
    live: HashMap<String, usize>,
    blocks: usize,
}

/// Things by the order in which they appear, from 1.
#[derive(Default)]
struct Numbers(HashMap<String, usize>);

impl Numbers {
    fn of(&mut self, name: &str) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

impl Log {
    fn read(text: &str) -> Result<Self, String> {
        let mut log = Self::default();
        let lines = text.strip_suffix('\n').ok_or("its last line has no end")?;
        for (number, line) in (1..).zip(lines.split('\n')) {
            // What the header is, the other log says.
            let read = if number == 1 { Ok(line.to_owned()) } else { log.row(line) };
            log.lines.push(read.map_err(|problem| format!("line {number}: {problem}: {line:?}"))?);
        }
        Ok(log)
    }

    fn row(&mut self, line: &str) -> Result<String, String> {
        let fields: Vec<&str> = line.split(',').collect();
        let &[thread, time, action, pointer, size, stream] = fields.as_slice() else {
            return Err(format!("{} fields", fields.len()));
        };
        let well_formed = [
            (is_decimal(thread), "thread"),
            (is_time(time), "time"),
            (pointer == "(nil)" || is_handle(pointer), "pointer"),
            (is_decimal(size), "size"),
            (stream == "0" || is_handle(stream), "stream"),
        ];
        if let Some((_, name)) = well_formed.iter().find(|(is_good, _)| !is_good) {
            return Err(format!("the {name} is malformed"));
        }
        let thread = self.threads.of(thread);
        let block = self.block(action, pointer)?;
        let number = self.streams.of(stream);
        let stream = if DEFAULT_STREAMS.contains(&stream) {
            stream.to_owned()
        } else {
            format!("(stream {number})")
        };
        Ok(format!("(thread {thread}),(time),{action},{block},{size},{stream}"))
    }

    /// The block that an address means in this row.
    fn block(&mut self, action: &str, pointer: &str) -> Result<String, String> {
        if pointer == "(nil)" {
            return Ok(pointer.to_owned());
        }
        let number = match action {
            "allocate" => {
                self.blocks += 1;
                match self.live.insert(pointer.to_owned(), self.blocks) {
                    None => self.blocks,
                    Some(_) => return Err("the address is live".to_owned()),
                }
            }
            "free" => self.live.remove(pointer).ok_or("the address is not live")?,
            _ => return Err("an address in what allocates and frees nothing".to_owned()),
        };
        Ok(format!("(block {number})"))
    }

    fn line(&self, row: usize) -> &str {
        self.lines.get(row).map_or("nothing", String::as_str)
    }

    fn counts(&self) -> Matched {
        Matched {
            rows: self.lines.len() - 1,
            threads: self.threads.0.len(),
            streams: self.streams.0.len(),
            blocks: self.blocks,
        }
    }
}

fn is_decimal(text: &str) -> bool {
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    !text.is_empty() && !has_leading_zero && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// As C's `%p` prints what is not null.
fn is_handle(text: &str) -> bool {
    text.strip_prefix("0x").is_some_and(|digits| {
        let is_lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        !digits.is_empty() && !digits.starts_with('0') && digits.bytes().all(is_lower_hex)
    })
}

/// `HH:MM:SS.uuuuuu`.
fn is_time(text: &str) -> bool {
    let shape = b"99:99:99.999999";
    text.len() == shape.len()
        && text.bytes().zip(shape).all(|(byte, &wanted)| match wanted {
            b'9' => byte.is_ascii_digit(),
            mark => byte == mark,
        })
}

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;
