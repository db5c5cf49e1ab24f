//! Formats a line of the log.

#![forbid(unsafe_code)]

use std::time::{SystemTime, UNIX_EPOCH};

use rmm_core::DevicePtr;
use rmm_sys::CuStream;

use crate::sync::thread_number;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Allocate,
    Free,
    Failure,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Free => "free",
            Self::Failure => "allocate failure",
        }
    }
}

/// The longest line: six fields of at most 20 bytes, except for the action with 16, and their
/// separators.
const ROOM: usize = 128;

/// The fields of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) thread: u64,
    /// Microseconds since midnight, UTC.
    pub(crate) time: u64,
    pub(crate) action: Action,
    pub(crate) pointer: DevicePtr,
    pub(crate) bytes: u64,
    /// The stream's handle; 0 for null.
    pub(crate) stream: u64,
}

/// A line with its newline, formatted on the stack: without a heap allocation, and several times as
/// fast as with `fmt`. It is written in one call.
pub(crate) struct Line {
    bytes: [u8; ROOM],
    length: usize,
}

impl Line {
    /// `Thread,Time,Action,Pointer,Size,Stream` of a call that the calling thread makes now.
    pub(super) fn new(
        action: Action,
        pointer: DevicePtr,
        bytes: usize,
        stream: Option<CuStream>,
    ) -> Self {
        // As in RMM, synchronous calls are logged as calls on the null stream.
        let stream = stream.map_or(0, CuStream::addr) as u64;
        let (thread, time) = (thread_number(), micros_of_day());
        Self::of(&Row { thread, time, action, pointer, bytes: bytes as u64, stream })
    }

    /// The last row of a log that is whole, on which RMM's reader and replay do nothing: a failed
    /// request for no bytes. It says when the log ended.
    pub(crate) fn end_mark() -> Self {
        Self::new(Action::Failure, DevicePtr::NULL, 0, None)
    }

    pub(crate) fn of(row: &Row) -> Self {
        let Row { thread, time, action, pointer, bytes, stream } = *row;
        let mut line = Self { bytes: [0; ROOM], length: 0 };
        line.decimal(thread);
        line.text(",");
        line.time_of_day(time);
        line.text(",");
        line.text(action.name());
        line.text(",");
        // As C's `%p` prints it.
        line.hexadecimal(pointer.0, "(nil)");
        line.text(",");
        line.decimal(bytes);
        line.text(",");
        line.hexadecimal(stream, "0");
        line.text("\n");
        line
    }

    /// The line without its newline, in a vector with room for more fields.
    pub(crate) fn open(&self) -> Vec<u8> {
        let mut open = Vec::with_capacity(2 * ROOM);
        open.extend_from_slice(self.as_bytes().trim_ascii_end());
        open
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Bytes beyond the capacity are dropped; every line fits.
    #[inline]
    fn text(&mut self, text: &str) {
        let end = self.length + text.len();
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            room.copy_from_slice(text.as_bytes());
            self.length = end;
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a digit is small")]
    fn digits<const BASE: u64>(&mut self, mut number: u64, count: usize) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let end = self.length + count;
        if let Some(room) = self.bytes.get_mut(self.length..end) {
            for place in room.iter_mut().rev() {
                *place = DIGITS[(number % BASE) as usize];
                number /= BASE;
            }
            self.length = end;
        }
    }

    fn decimal(&mut self, number: u64) {
        self.digits::<10>(number, number.checked_ilog10().unwrap_or(0) as usize + 1);
    }

    /// With the prefix `0x`; zero is `(nil)`.
    fn hexadecimal(&mut self, number: u64, zero: &str) {
        match number.checked_ilog2() {
            Some(highest_bit) => {
                self.text("0x");
                self.digits::<16>(number, highest_bit as usize / 4 + 1);
            }
            None => self.text(zero),
        }
    }

    /// `HH:MM:SS.uuuuuu`
    fn time_of_day(&mut self, micros: u64) {
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        self.digits::<10>(seconds / 3600, 2);
        self.text(":");
        self.digits::<10>(seconds / 60 % 60, 2);
        self.text(":");
        self.digits::<10>(seconds % 60, 2);
        self.text(".");
        self.digits::<10>(micros, 6);
    }
}

/// The time since midnight, UTC.
fn micros_of_day() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() % 86_400 * 1_000_000 + u64::from(since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_fits_the_buffer() {
        let stream = CuStream::from_raw(std::ptr::without_provenance_mut(usize::MAX));
        let line = Line::new(Action::Failure, DevicePtr(u64::MAX), usize::MAX, Some(stream));
        let text = str::from_utf8(line.as_bytes()).expect("UTF-8");
        let end = ",allocate failure,0xffffffffffffffff,18446744073709551615,0xffffffffffffffff\n";
        assert!(text.ends_with(end), "{text:?}");
        // The thread's number may become longer by 19 digits.
        assert!(text.len() + 19 <= ROOM, "{}", text.len());
    }

    /// The bytes of a line after one call of `write`.
    fn written(write: impl FnOnce(&mut Line)) -> String {
        let mut line = Line { bytes: [0; ROOM], length: 0 };
        write(&mut line);
        String::from_utf8(line.as_bytes().to_vec()).expect("UTF-8")
    }

    #[test]
    fn the_time_of_day_has_rmm_s_format() {
        let time = |micros| written(|line| line.time_of_day(micros));
        assert_eq!(time(0), "00:00:00.000000");
        assert_eq!(time(86_399_999_999), "23:59:59.999999");
        assert_eq!(time(3_661_000_042), "01:01:01.000042");
    }

    #[test]
    fn numbers_have_the_format_of_fmt() {
        let powers = (0..64).map(|shift| 1_u64 << shift);
        let tens = (0..20).map(|exponent| 10_u64.pow(exponent));
        let numbers = powers.chain(tens).flat_map(|number| [number - 1, number, number + 1]);
        for number in numbers.chain([u64::MAX]) {
            assert_eq!(written(|line| line.decimal(number)), number.to_string());
            let hexadecimal = if number == 0 { "(nil)".into() } else { format!("{number:#x}") };
            assert_eq!(written(|line| line.hexadecimal(number, "(nil)")), hexadecimal);
        }
    }
}
