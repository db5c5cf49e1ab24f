//! What a suballocator held when it gave up, and why that was not enough.

use std::fmt;

use crate::{StreamId, format_bytes};

/// What a suballocator held when it could not serve a request.
///
/// ```
/// use rmm_core::{Error, Exhaustion, Shortage};
///
/// let held = Exhaustion {
///     reserved: 1 << 30,
///     live: 1 << 29,
///     largest_free: 1 << 20,
///     longest_range: 1 << 20,
///     limit: Some(1 << 30),
///     shortage: Some(Shortage::Fragmented),
/// };
/// let error = Error::out_of_memory("pool").with_exhaustion(held);
/// assert_eq!(error.exhaustion().and_then(|held| held.shortage), Some(Shortage::Fragmented));
/// assert!(error.to_string().contains("1.0 GiB reserved, 512.0 MiB live, largest free block 1.0 MiB, limit 1.0 GiB"));
/// assert!(error.to_string().ends_with("enough is free, but not in one range: neither waiting nor trimming would help"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exhaustion {
    /// Bytes taken from upstream.
    pub reserved: u64,
    /// Bytes handed out and not freed.
    pub live: u64,
    /// Bytes of the largest free block.
    pub largest_free: u64,
    /// Bytes of the longest range of which nothing is handed out, whoever freed it and whether the
    /// device is done with it or not.
    pub longest_range: u64,
    /// The most bytes that may be taken from upstream, if a limit was set.
    pub limit: Option<u64>,
    /// Why that was not enough, if it was found out.
    pub shortage: Option<Shortage>,
}

/// Why memory could not be had, and with it what would help. More reasons may come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Shortage {
    /// Less is free, and may be added within the limit, than was asked for. To free memory or to
    /// raise the limit would help.
    Exhausted,
    /// The limit, if there is one, leaves room, but upstream has no more to give: others hold the
    /// rest, or it is less than this. To free memory there would help.
    Upstream,
    /// Enough is free, but not in one range.
    Fragmented,
    /// There is a range, or there are pieces to give back for one, but the device may still use
    /// them, and a stream may be captured, which a wait would spoil; or the wait failed. To wait
    /// for the device and ask again would help.
    Pending,
    /// Enough would be free but for what was freed on captured streams, and is kept for their
    /// graphs until it is released.
    KeptForGraphs,
}

/// Bytes that were freed on a stream, and that other streams cannot have yet: the device is not
/// known to be past their last use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldByStream {
    /// The stream; `None` if it is gone, or bytes of several such.
    pub stream: Option<StreamId>,
    /// Bytes.
    pub bytes: u64,
}

impl fmt::Display for Exhaustion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reserved, live, largest_free, longest_range, limit, shortage: _ } = *self;
        let [reserved, live, largest] = [reserved, live, largest_free].map(format_bytes);
        write!(f, "{reserved} reserved, {live} live, largest free block {largest}")?;
        if longest_range > largest_free {
            write!(f, ", longest free range {}", format_bytes(longest_range))?;
        }
        match limit {
            Some(limit) => write!(f, ", limit {}", format_bytes(limit)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exhausted => "what is free, and what may be added, is too little",
            Self::Upstream => "it might hold more, but upstream has no more to give",
            Self::Fragmented => {
                "enough is free, but not in one range: neither waiting nor trimming would help"
            }
            Self::Pending => "the device may still use what is free: waiting for it would help",
            Self::KeptForGraphs => "releasing what is kept for graphs would help",
        })
    }
}

/// Streams that are named in a message.
const NAMED: usize = 4;

/// Writes who holds what, the most first.
pub(crate) fn write_held(f: &mut fmt::Formatter<'_>, held: &[HeldByStream]) -> fmt::Result {
    if held.is_empty() {
        return Ok(());
    }
    let all = held.iter().map(|held| held.bytes).sum();
    write!(f, ", {} freed and perhaps still in use", format_bytes(all))?;
    for (index, HeldByStream { stream, bytes }) in held.iter().take(NAMED).enumerate() {
        f.write_str(if index == 0 { " (" } else { ", " })?;
        match stream {
            Some(stream) => write!(f, "stream {stream}: {}", format_bytes(*bytes))?,
            None => write!(f, "streams that are gone: {}", format_bytes(*bytes))?,
        }
    }
    f.write_str(if held.len() > NAMED { ", ...)" } else { ")" })
}
