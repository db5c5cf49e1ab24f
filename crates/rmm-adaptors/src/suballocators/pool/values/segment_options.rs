//! What segments a pool takes from upstream.

#![forbid(unsafe_code)]

use rmm_core::Error;

use super::policy::GrowthPolicy;

/// What segments a new pool takes from upstream.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SegmentOptions {
    /// The size of each, in bytes.
    pub(crate) size: Option<u64>,
    /// Whether each block lies within one.
    pub(crate) single_handle: bool,
    /// Whether they stay until the pool's end.
    pub(crate) pinned: bool,
}

impl SegmentOptions {
    /// The bytes to multiples of which the pool asks an upstream of this granularity.
    ///
    /// # Errors
    /// Invalid argument unless the size is a power of two, of whole pages.
    pub(crate) fn granularity(self, name: &'static str, page: u64) -> Result<u64, Error> {
        match self.size {
            None => Ok(page),
            Some(bytes) if bytes.is_power_of_two() && bytes.is_multiple_of(page) => Ok(bytes),
            Some(bytes) => {
                let message =
                    format!("segments of {bytes} bytes: set a power of two, of at least {page}");
                Err(Error::invalid_argument(name, message))
            }
        }
    }

    /// The policy of a pool that a policy was set for: a segment is a step.
    pub(crate) fn growth(self, set: GrowthPolicy) -> GrowthPolicy {
        match (set, self.size) {
            (GrowthPolicy::Geometric, Some(_)) => GrowthPolicy::Exact,
            (set, _) => set,
        }
    }
}
