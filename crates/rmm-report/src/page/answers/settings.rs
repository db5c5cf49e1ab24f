//! How much memory a program needs, and what one resource took for it.

use serde::Serialize;

use super::failed::Failed;
use super::peak::Peak;
use crate::page::view::View;

/// Amounts of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// What is live at the peak, or would be with a request that failed: no resource needs less.
    pub least_bytes: u64,
    /// Whether requests failed when the log was recorded: without that the program may need more.
    pub is_cut_short: bool,
    /// How many requests failed otherwise, in a replay.
    pub failures: u64,
    /// What the resource held at most, if it is known and nothing failed.
    pub used_bytes: Option<u64>,
    /// What it held at most, whether or not something failed.
    pub held_bytes: Option<u64>,
    /// How often what it holds rose.
    pub growths: u64,
    /// How often a stream was made to wait for another.
    pub waits: u64,
    /// Driver calls, if it is a replay and they are counted.
    pub driver_calls: Option<u64>,
}

impl Settings {
    /// Of a view.
    pub(super) fn of(view: &View, peak: &Peak, failed: Option<&Failed>) -> Self {
        let (failures, recorded) = match view.replay {
            Some(replay) => (replay.failures, replay.recorded_failures),
            None if view.resource.is_some() => (view.failed, 0),
            None => (0, view.failed),
        };
        let replay = view.replay.unwrap_or_default();
        let counted = view.peak_reserved;
        let levels = || view.reserved.iter().flatten().map(|&(_, bytes)| bytes);
        let held_bytes = counted.or(levels().max());
        let wanted = failed.map_or(0, |failed| failed.wanted_bytes);
        Self {
            least_bytes: peak.bytes.max(wanted).max(replay.recorded_peak),
            is_cut_short: recorded > 0,
            failures,
            used_bytes: held_bytes.filter(|_| failures == 0 && view.failed == 0),
            held_bytes,
            growths: levels().zip(levels().skip(1)).filter(|(one, next)| next > one).count() as u64,
            waits: replay
                .stream_waits
                .unwrap_or_else(|| view.waits.iter().map(|&(_, waits)| waits).sum()),
            driver_calls: replay.driver_calls,
        }
    }
}
