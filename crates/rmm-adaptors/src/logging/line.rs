//! A line of the log.

#![forbid(unsafe_code)]

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rmm_core::DevicePtr;
use rmm_sys::CuStream;

#[derive(Clone, Copy)]
pub(super) enum Action {
    Allocate,
    Free,
    Failure,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allocate => "allocate",
            Self::Free => "free",
            Self::Failure => "allocate failure",
        })
    }
}

/// Room for the longest line: six fields of at most 20 bytes, but for the action of 16, and what divides them.
const ROOM: usize = 128;

/// A line with its end, written without the host's heap, so that a writer gets it in one piece.
pub(super) struct Line {
    bytes: [u8; ROOM],
    length: usize,
}

impl Line {
    pub(super) fn new(
        action: Action,
        pointer: DevicePtr,
        bytes: usize,
        stream: Option<CuStream>,
    ) -> Self {
        let (thread, time, pointer) = (thread_number(), TimeOfDay::now(), Address(pointer.0));
        // The synchronous calls are, to the log, calls on the null stream, as they are in RMM.
        let stream = Handle(stream.map_or(0, CuStream::addr));
        let mut line = [0; ROOM];
        let mut rest = &mut line[..];
        // There is room for all of it.
        let _whole = writeln!(rest, "{thread},{time},{action},{pointer},{bytes},{stream}");
        let length = ROOM - rest.len();
        Self { bytes: line, length }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A small number for the calling thread, given once in a process.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// `HH:MM:SS.uuuuuu`, UTC.
struct TimeOfDay(u64);

impl TimeOfDay {
    fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_secs() % 86_400 * 1_000_000 + u64::from(since.subsec_micros()))
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        write!(f, "{:02}:{:02}:{:02}.{micros:06}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// An address as C's `%p` prints it.
struct Address(u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("(nil)") } else { write!(f, "{:#x}", self.0) }
    }
}

/// A stream's handle: `0` for null, else hexadecimal.
struct Handle(usize);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0") } else { write!(f, "{:#x}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_is_whole() {
        let stream = CuStream::from_raw(std::ptr::without_provenance_mut(usize::MAX));
        let line = Line::new(Action::Failure, DevicePtr(u64::MAX), usize::MAX, Some(stream));
        let text = str::from_utf8(line.as_bytes()).expect("UTF-8");
        let end = ",allocate failure,0xffffffffffffffff,18446744073709551615,0xffffffffffffffff\n";
        assert!(text.ends_with(end), "{text:?}");
        // The thread's number may become longer by 19.
        assert!(text.len() + 19 <= ROOM, "{}", text.len());
    }

    #[test]
    fn the_time_of_day_is_as_rmm_writes_it() {
        assert_eq!(TimeOfDay(0).to_string(), "00:00:00.000000");
        assert_eq!(TimeOfDay(86_399_999_999).to_string(), "23:59:59.999999");
        assert_eq!(TimeOfDay(3_661_000_042).to_string(), "01:01:01.000042");
    }
}
