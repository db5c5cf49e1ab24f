//! How much memory a program needs, and what one resource took for it.

use serde::Serialize;

use super::failed::Failed;
use super::peak::Peak;
use crate::page::view::View;

/// Amounts of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// What is live at the peak, or would be with the first request that failed: no resource needs
    /// less.
    pub least_bytes: u64,
    /// What the resource held at most, if it is known and nothing failed.
    pub used_bytes: Option<u64>,
    /// How often a stream was made to wait for another.
    pub waits: u64,
}

impl Settings {
    /// Of a view.
    pub(super) fn of(view: &View, peak: &Peak, failed: Option<&Failed>) -> Self {
        let counted = view.peak_reserved;
        let seen = view.reserved.iter().flatten().map(|&(_, bytes)| bytes).max();
        let wanted = failed.map(|failed| failed.split.live_bytes().saturating_add(failed.bytes));
        Self {
            least_bytes: peak.bytes.max(wanted.unwrap_or(0)),
            used_bytes: counted.or(seen).filter(|_| view.failed == 0),
            waits: view.waits.iter().map(|&(_, waits)| waits).sum(),
        }
    }
}
