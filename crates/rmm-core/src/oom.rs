//! Details of out-of-memory errors: what the allocator held, and what ran short.

use std::fmt;

use crate::{StreamId, format_bytes};

/// What a suballocator held when it could not serve a request.
///
/// ```
/// use rmm_core::{Error, OomReason, PoolUsage};
///
/// let usage = PoolUsage::new(1 << 30, 1 << 29)
///     .with_largest_free(1 << 20)
///     .with_limit(1 << 30)
///     .with_reason(OomReason::Fragmented);
/// let error = Error::out_of_memory("pool").with_usage(usage);
/// assert_eq!(error.usage().and_then(|usage| usage.reason), Some(OomReason::Fragmented));
/// let text = error.to_string();
/// assert!(text.contains("1.0 GiB reserved, 512.0 MiB live"));
/// assert!(text.contains(", largest free block 1.0 MiB, limit 1.0 GiB"));
/// assert!(text.ends_with("enough memory is free, but not in one contiguous range"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolUsage {
    /// Bytes taken from the upstream.
    pub reserved: u64,
    /// Bytes allocated and not freed.
    pub live: u64,
    /// Bytes of the largest free block.
    pub largest_free: u64,
    /// Bytes of the longest range with no live block in it, on whichever streams its parts were
    /// freed, and whether or not the device may still use them.
    pub longest_range: u64,
    /// Upper bound on the bytes taken from the upstream, if one was set.
    pub limit: Option<u64>,
    /// Why that was not enough, if known.
    pub reason: Option<OomReason>,
}

impl PoolUsage {
    /// Usage of an allocator that took `reserved` bytes from its upstream, of which `live` bytes
    /// are allocated. Nothing is known to be free.
    pub const fn new(reserved: u64, live: u64) -> Self {
        Self { reserved, live, largest_free: 0, longest_range: 0, limit: None, reason: None }
    }

    /// Bytes that are reserved and not allocated.
    pub const fn free_bytes(&self) -> u64 {
        self.reserved.saturating_sub(self.live)
    }

    /// Sets the bytes of the largest free block, and of the longest range if that is shorter.
    #[must_use]
    pub const fn with_largest_free(mut self, bytes: u64) -> Self {
        self.largest_free = bytes;
        if self.longest_range < bytes {
            self.longest_range = bytes;
        }
        self
    }

    /// Sets the bytes of the longest range with no live block in it.
    #[must_use]
    pub const fn with_longest_range(mut self, bytes: u64) -> Self {
        self.longest_range = bytes;
        self
    }

    /// Sets the limit, in bytes.
    #[must_use]
    pub fn with_limit(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.limit = bytes.into();
        self
    }

    /// Sets why that was not enough.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<Option<OomReason>>) -> Self {
        self.reason = reason.into();
        self
    }
}

/// Why an allocation failed, and with it what would help.
///
/// Displays as what ran short and what to do about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum OomReason {
    /// Not enough memory is free, and the limit leaves no room to grow.
    Exhausted,
    /// The limit, if there is one, leaves room, but the upstream is out of memory: others hold the
    /// rest, or it has less than the limit.
    Upstream,
    /// Enough memory is free, but not in one contiguous range.
    Fragmented,
    /// Enough memory is free, but the device may still use it. The allocator did not wait, because
    /// a stream may be under capture and a wait would invalidate the capture, or the wait failed.
    Pending,
    /// Enough memory would be free but for what was freed on captured streams and is reserved for
    /// their graphs until it is released.
    KeptForGraphs,
    /// The request was of limited [effort](crate::Effort), which left out what may have served it.
    LimitedEffort,
}

/// Bytes that were freed on a stream and that other streams cannot reuse yet: their last use is not
/// known to be complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PendingBytes {
    /// The stream; `None` for the sum of all streams that are destroyed.
    pub stream: Option<StreamId>,
    /// Bytes.
    pub bytes: u64,
}

impl PendingBytes {
    /// Bytes freed on a stream, or on streams that are destroyed (`None`).
    pub fn new(stream: impl Into<Option<StreamId>>, bytes: u64) -> Self {
        Self { stream: stream.into(), bytes }
    }
}

impl fmt::Display for PoolUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reserved, live, largest_free, longest_range, limit, reason: _ } = *self;
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

impl fmt::Display for OomReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exhausted => {
                "not enough memory is free, and the limit leaves no room: free memory or raise the limit"
            }
            Self::Upstream => "the upstream is out of memory",
            Self::Fragmented => "enough memory is free, but not in one contiguous range",
            Self::Pending => {
                "enough memory is free but may still be in use by the device: synchronize and retry"
            }
            Self::KeptForGraphs => {
                "enough memory is free only if memory reserved for CUDA graphs is released: call `release_graph_memory`"
            }
            Self::LimitedEffort => {
                "the request was of limited effort: let the host wait, let the pool grow, or take more time"
            }
        })
    }
}

/// Upper bound on the streams that a message names.
const NAMED: usize = 4;

/// Writes what is pending on which stream, the most first.
pub(crate) fn write_pending(f: &mut fmt::Formatter<'_>, pending: &[PendingBytes]) -> fmt::Result {
    if pending.is_empty() {
        return Ok(());
    }
    let all = pending.iter().map(|pending| pending.bytes).sum();
    write!(f, ", {} freed and perhaps still in use", format_bytes(all))?;
    for (index, PendingBytes { stream, bytes }) in pending.iter().take(NAMED).enumerate() {
        f.write_str(if index == 0 { " (" } else { ", " })?;
        match stream {
            Some(stream) => write!(f, "stream {stream}: {}", format_bytes(*bytes))?,
            None => write!(f, "destroyed streams: {}", format_bytes(*bytes))?,
        }
    }
    f.write_str(if pending.len() > NAMED { ", ...)" } else { ")" })
}
