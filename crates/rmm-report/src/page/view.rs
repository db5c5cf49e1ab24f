//! What a page shows of one log or one resource.

use serde::Serialize;

/// [`ViewBlock::end`] of a block that is never freed.
pub const NEVER: u32 = u32::MAX;

/// One log, or one resource that served its calls.
///
/// Places in time are *positions*: position 0 is before the first event, position `n` after the
/// `n`th. A block that event `n` allocates is live from position `n`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The log or the program. Views with the same name share their events.
    pub log: String,
    /// The resource; `None` where the addresses are those that were recorded.
    pub resource: Option<String>,
    /// How many events there are.
    pub events: u32,
    /// Nanoseconds since the first event, for each event; empty if they are not known.
    pub times: Vec<u64>,
    /// The blocks, by their start.
    pub blocks: Vec<ViewBlock>,
    /// The names that the indices of blocks and failures mean.
    pub names: Names,
    /// Bytes that are held from the driver, at each position where they change, if they are known.
    pub reserved: Option<Vec<(u32, u64)>>,
    /// Where streams were made to wait for others, and how often.
    pub waits: Vec<(u32, u64)>,
    /// Where the calling thread waited for the device, and how often.
    pub host_waits: Vec<(u32, u64)>,
    /// The failures, in order; at most [`MAX_FAILURES`](Self::MAX_FAILURES) of them.
    pub failures: Vec<ViewFailure>,
    /// How many failures there are.
    pub failed: u64,
    /// The memory below the addresses; empty if it is not known.
    pub segments: Vec<ViewSegment>,
    /// How the log ends.
    pub ending: Ending,
    /// The most bytes held at once, as the resource counts them.
    pub peak_reserved: Option<u64>,
    /// What pools counted, at the positions where they were asked.
    pub counted: Vec<ViewCounted>,
    /// What a replay knows beside its events; `None` for what is no replay.
    pub replay: Option<ViewReplay>,
}

/// What a replay of a log against a resource knows beside its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewReplay {
    /// The most bytes live at once in the log as recorded, each block rounded up to 256.
    pub recorded_peak: u64,
    /// Requests that had failed when the log was recorded.
    pub recorded_failures: u64,
    /// Other requests that failed: in the observed run or, if none did there, in a timed one.
    pub failures: u64,
    /// How often a stream waited for another in one timed run; `None` if that is not counted.
    pub stream_waits: Option<u64>,
    /// Driver calls of one timed run, where they are counted.
    pub driver_calls: Option<u64>,
    /// Whether free pages can be mapped elsewhere: the resource has its memory from virtual memory.
    pub joins_pages: bool,
}

/// What pools counted of their memory at one position. Parts may overlap those that follow from
/// addresses: what waits for a stream is free there, and what graphs keep is live.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ViewCounted {
    /// The position.
    pub position: u32,
    /// The parts that are not empty.
    pub parts: Vec<CountedPart>,
}

/// A part of what pools hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountedPart {
    /// What it is.
    pub what: String,
    /// Its bytes.
    pub bytes: u64,
}

impl View {
    /// The most failures that a view holds; they are counted beyond that.
    pub const MAX_FAILURES: usize = 1000;

    /// Nanoseconds from the first event to a position, if times are known.
    pub(crate) fn time(&self, position: u32) -> Option<u64> {
        self.times.get((position as usize).saturating_sub(1)).copied()
    }
}

/// A block, from its allocation to its free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewBlock {
    /// The position from which it is live; 0 if it was live before the first event.
    pub start: u32,
    /// The position from which it is not; [`NEVER`] if it is not freed.
    pub end: u32,
    /// Bytes, as they were asked for.
    pub size: u64,
    /// Where it begins.
    pub address: u64,
    /// An index into [`Names::streams`].
    pub stream: u32,
    /// An index into [`Names::threads`].
    pub thread: u32,
    /// An index into [`Names::tags`].
    pub tag: u32,
    /// An index into [`Names::sites`].
    pub site: u32,
}

impl ViewBlock {
    /// Whether it is live at a position.
    pub(crate) fn is_live(&self, position: u32) -> bool {
        self.start <= position && position < self.end
    }

    /// Bytes, rounded up to the alignment of every allocation.
    pub(crate) fn aligned(&self) -> u64 {
        self.size.checked_next_multiple_of(crate::trace::ALIGNMENT).unwrap_or(self.size)
    }
}

/// The names of streams, threads, tags and sites. Of tags and sites the first is empty: it is not
/// known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Streams.
    pub streams: Vec<String>,
    /// Threads.
    pub threads: Vec<String>,
    /// Tags.
    pub tags: Vec<String>,
    /// Call sites; several frames have ` < ` between them, the innermost first.
    pub sites: Vec<String>,
}

/// A request that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewFailure {
    /// The position after it.
    pub position: u32,
    /// Bytes that were asked for.
    pub size: u64,
    /// The error, if it is known.
    pub text: String,
    /// The limit of the resource, if one is known.
    pub limit: Option<ViewLimit>,
    /// An index into [`Names::streams`].
    pub stream: u32,
    /// An index into [`Names::tags`].
    pub tag: u32,
    /// An index into [`Names::sites`].
    pub site: u32,
}

/// A limit of a resource, at one moment, or what the device has for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewLimit {
    /// The most bytes that it may have.
    pub most: u64,
    /// What it has of them.
    pub used: u64,
    /// Whether no limit was set, and the device has no more.
    pub is_device: bool,
}

/// A range of addresses that has memory for some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewSegment {
    /// Where it begins.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// The position from which it is there.
    pub start: u32,
    /// The position from which it is not; [`NEVER`] if it stays.
    pub end: u32,
}

/// How a log ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The log does not say.
    #[default]
    Unknown,
    /// The program closed it.
    Closed,
    /// In the middle of a line, or the program still runs: blocks that are live need not be leaks.
    Open,
}

/// A short name for each view: the resource where all have the same log, and logs without their
/// folders if those names differ.
pub(crate) fn titles(views: &[View]) -> Vec<String> {
    let is_one = views.iter().all(|view| view.log == views[0].log);
    let file = |log: &str| log.rsplit('/').next().unwrap_or(log).to_owned();
    let mut logs: Vec<(&str, String)> =
        views.iter().map(|view| (&*view.log, file(&view.log))).collect();
    logs.sort();
    logs.dedup();
    let is_ambiguous = logs.windows(2).any(|pair| {
        pair[0].0 != pair[1].0 && logs.iter().filter(|log| log.1 == pair[0].1).count() > 1
    });
    let log = |view: &View| if is_ambiguous { view.log.clone() } else { file(&view.log) };
    let title = |view: &View| match &view.resource {
        Some(resource) if is_one && views.len() > 1 => resource.clone(),
        Some(resource) => format!("{} on {resource}", log(view)),
        None => log(view),
    };
    views.iter().map(title).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[(&str, Option<&str>)]) -> Vec<String> {
        let view = |&(log, resource): &(&str, Option<&str>)| View {
            log: log.to_owned(),
            resource: resource.map(str::to_owned),
            ..View::default()
        };
        titles(&names.iter().map(view).collect::<Vec<_>>())
    }

    #[test]
    fn views_have_short_names_that_differ() {
        assert_eq!(named(&[("/a/x.csv", Some("pool"))]), ["x.csv on pool"]);
        assert_eq!(
            named(&[("/a/x.csv", Some("pool")), ("/a/x.csv", Some("cuda"))]),
            ["pool", "cuda"]
        );
        assert_eq!(named(&[("/a/x.csv", None), ("/a/y.csv", None)]), ["x.csv", "y.csv"]);
        assert_eq!(named(&[("/a/x.csv", None), ("/b/x.csv", None)]), ["/a/x.csv", "/b/x.csv"]);
        assert!(titles(&[]).is_empty());
    }
}
