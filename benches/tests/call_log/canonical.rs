//! Allocation logs without what differs from run to run.

#![forbid(unsafe_code)]

use std::collections::HashMap;

/// The handles of the default streams, which are the same in every process: null, the legacy one,
/// the thread's own.
const DEFAULT_STREAMS: [&str; 3] = ["0", "0x1", "0x2"];

/// A log as two runs of one program write it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Canonical {
    /// The header, and the rows with numbers in place of addresses, threads and the handles of
    /// streams, and without times.
    pub(crate) lines: Vec<String>,
    /// Threads in them.
    pub(crate) threads: usize,
    /// Streams in them, default streams too.
    pub(crate) streams: usize,
    /// Allocations that succeeded, those of no bytes left out.
    pub(crate) blocks: usize,
}

/// What a log has in common with those of other runs of its program.
///
/// # Errors
/// If the log is not as RMM writes them.
pub(crate) fn canonical(text: &str) -> Result<Canonical, String> {
    let mut log = Log::default();
    let lines = text.strip_suffix('\n').ok_or("its last line has no end")?;
    let mut canonical = Vec::new();
    for (number, line) in (1..).zip(lines.split('\n')) {
        // What the header is, the other log says.
        let read = if number == 1 { Ok(line.to_owned()) } else { log.row(line) };
        canonical.push(read.map_err(|problem| format!("line {number}: {problem}: {line:?}"))?);
    }
    let (threads, streams) = (log.threads.0.len(), log.streams.0.len());
    Ok(Canonical { lines: canonical, threads, streams, blocks: log.blocks })
}

/// What the rows so far have named.
#[derive(Default)]
struct Log {
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
#[path = "canonical/tests.rs"]
mod tests;
