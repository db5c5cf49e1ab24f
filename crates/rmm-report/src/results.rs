//! The results of a replay as plain data, and their JSON.
//!
//! "Live" bytes are counted with each size rounded up to 256, the alignment of every allocation, as
//! the published figures of other allocators are; "reserved" bytes are what the resource holds from
//! its upstream or the driver. The ratio of the two at their peaks is what fragmentation and
//! caching cost.

use serde::Serialize;

use crate::page::View;

/// One run of `rmm replay`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of this program.
    pub rmm_version: String,
    /// The device that the traces were replayed on, as the driver names it.
    pub device: String,
    /// Whether that is the software device, on which times say nothing about a GPU.
    pub software_device: bool,
    /// The traces, in the order of the command line.
    pub traces: Vec<TraceResult>,
}

/// One trace, replayed against every resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceResult {
    /// The file, as it was named on the command line.
    pub file: String,
    /// How many events the trace has.
    pub events: u64,
    /// How many threads it was recorded on.
    pub threads: u64,
    /// How many streams it uses.
    pub streams: u64,
    /// The most bytes live at once in the trace as recorded, each size rounded up to 256.
    pub peak_live_bytes: u64,
    /// Whether the log ends before its program, in the middle of a line or as a snapshot: blocks
    /// that are live then need not be leaks.
    pub ends_early: bool,
    /// The resources, in the order of the command line.
    pub resources: Vec<ResourceResult>,
}

/// One trace, replayed against one resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceResult {
    /// The name of the resource, such as `pool`.
    pub resource: String,
    /// How many events were replayed in one repeat, those that failed counted.
    pub events: u64,
    /// Host time of the first replay, on a fresh resource: nanoseconds for one event, on average.
    pub cold_ns_per_op: f64,
    /// Host time of the later replays, on the resource that the first one warmed up: nanoseconds
    /// for one event, the median of the repeats. `None` where there was only one replay.
    pub warm_ns_per_op: Option<f64>,
    /// How often the trace was replayed, the first time counted.
    pub repeats: u32,
    /// The most bytes live at once in the replay, each size rounded up to 256.
    pub peak_live_bytes: u64,
    /// The most bytes the resource held from the driver: as its pool counts them, if one pool holds
    /// all, and else the largest sum after an event. `None` on the software device if pools of the
    /// driver hold some: it only models them.
    pub peak_reserved_bytes: Option<u64>,
    /// `peak_reserved_bytes / peak_live_bytes`; 1 is the best possible.
    pub reserved_over_live: Option<f64>,
    /// The most bytes live or cached at once as the pool counts them, which rounds some sizes up
    /// further, if one pool holds all memory of the resource.
    pub pool_peak_live_bytes: Option<u64>,
    /// Whether memory comes from the driver's pools.
    pub has_driver_pool: bool,
    /// How often the resource made one stream wait for another, in one replay; `None` if memory
    /// comes from the driver's pools, which do not count it.
    pub stream_waits: Option<u64>,
    /// How many calls of the driver one replay made, where they are counted.
    pub driver_calls: Option<u64>,
    /// How many events failed in one replay: in the one in which the most did.
    pub failures: u64,
    /// What the first of them was, with its line in the trace.
    pub first_failure: Option<String>,
    /// Blocks that were still live at the end of the trace.
    pub leaked_blocks: u64,
    /// Bytes in them, each size rounded up to 256.
    pub leaked_bytes: u64,
    /// The bytes of `peak_reserved_bytes` that it took when it was made; for the table, not in the
    /// JSON.
    #[serde(skip)]
    pub initial_reserved_bytes: u64,
    /// What happened, for the page; not in the JSON.
    #[serde(skip)]
    pub view: Option<View>,
}

impl Report {
    /// The report as indented JSON with a line end; floats that are not finite become `null`.
    ///
    /// # Errors
    /// None that this data can cause; the signature is `serde_json`'s.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        Ok(json)
    }
}
