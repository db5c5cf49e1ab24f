//! The time of day in a few nanoseconds.

#![forbid(unsafe_code)]

/// Microseconds since 1970, UTC, at the last tick of the system's clock, every 1 to 10
/// milliseconds.
#[cfg(target_os = "linux")]
#[inline]
pub(super) fn now() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::RealtimeCoarse);
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(time.tv_sec) * 1_000_000 + part(time.tv_nsec) / 1000
}

/// Microseconds since 1970, UTC.
#[cfg(not(target_os = "linux"))]
pub(super) fn now() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};

    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
}

/// Microseconds since midnight, UTC.
pub(super) fn of_day(micros: u64) -> u64 {
    micros % (86_400 * 1_000_000)
}
