//! Values that do not share a cache line with their neighbours.

/// A value on cache lines of its own, as crossbeam's: a write to its neighbours does not make other
/// processors fetch it anew (false sharing). Two lines of 64 bytes, since processors prefetch
/// pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);
