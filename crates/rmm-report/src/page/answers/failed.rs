//! The first request that failed, what there was then, and what would have let it succeed.

use serde::Serialize;

use super::share::{Holder, Share, largest, live_at, shares};
use super::split::{PAGE, Split};
use crate::page::view::{View, ViewFailure, ViewLimit};

/// The first failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// How many requests failed.
    pub count: u64,
    /// The most that would be live with one of them.
    pub wanted_bytes: u64,
    /// The position after the first.
    pub position: u32,
    /// Nanoseconds from the first event to there, if times are known.
    pub time_ns: Option<u64>,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// The stream.
    pub stream: String,
    /// The tag, empty if there is none.
    pub tag: String,
    /// The call site, empty if it is not known.
    pub site: String,
    /// The error, empty if it is not known.
    pub text: String,
    /// The limit of the resource, if one is known.
    pub limit_bytes: Option<u64>,
    /// What the device had for the resource, if that was the limit.
    pub device_bytes: Option<u64>,
    /// By how much what is live and the request exceed the limit, or the memory of the device; if
    /// neither is known, what is held. 0 if they would fit without a free byte between blocks;
    /// `None` if nothing is known.
    pub short_bytes: Option<u64>,
    /// What would be held with the request as one more block, if what is held is known.
    pub needed_bytes: Option<u64>,
    /// What is held then, in parts.
    pub split: Split,
    /// What would have let it succeed.
    pub remedy: WhatItTakes,
    /// The largest shares then.
    pub shares: Vec<Share>,
    /// The largest blocks then.
    pub largest: Vec<Holder>,
}

/// What would have let a request succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum WhatItTakes {
    /// A free range is large enough: it was not available, such as while another stream uses it.
    Wait {
        /// The range.
        hole_bytes: u64,
    },
    /// Enough is free, in too many pieces.
    Join {
        /// What is free in all.
        free_bytes: u64,
        /// What of it is whole pages.
        whole_free_bytes: u64,
        /// Whether a pool over virtual memory would serve the request from these pages.
        pages_are_enough: bool,
        /// The limit that is enough, if the resource has one.
        limit_bytes: Option<u64>,
    },
    /// More memory.
    More {
        /// By how much, if all that is free could be joined.
        missing_bytes: u64,
    },
    /// A higher limit of the resource.
    Limit {
        /// By how much.
        missing_bytes: u64,
        /// The limit that is enough.
        limit_bytes: u64,
        /// Whether it counts what is allocated, as an adaptor's does, and not what is held below.
        is_of_live: bool,
    },
    /// What is held is not known: with this many bytes for the program it would have fitted.
    Total {
        /// What is live, and the request.
        bytes: u64,
    },
}

impl Failed {
    /// The first failure of a view, whose live bytes at each position are `live`.
    pub(super) fn of(view: &View, live: &[u64]) -> Option<Self> {
        let first = view.failures.first()?;
        let split = Split::of(view, first.position);
        let blocks = live_at(view, first.position);
        let name =
            |names: &[String], index: u32| names.get(index as usize).cloned().unwrap_or_default();
        let wanted = view.failures.iter().map(|failure| {
            let before = live.get(failure.position as usize).copied().unwrap_or(0);
            before.saturating_add(failure.size)
        });
        Some(Self {
            count: view.failed,
            wanted_bytes: wanted.max().unwrap_or(0),
            limit_bytes: first.limit.filter(|limit| !limit.is_device).map(|limit| limit.most),
            short_bytes: short(first, &split),
            device_bytes: first.limit.filter(|limit| limit.is_device).map(|limit| limit.most),
            needed_bytes: split.is_known.then(|| needed(first, &split)),
            position: first.position,
            time_ns: view.time(first.position),
            bytes: first.size,
            stream: name(&view.names.streams, first.stream),
            tag: name(&view.names.tags, first.tag),
            site: name(&view.names.sites, first.site),
            text: first.text.clone(),
            remedy: WhatItTakes::of(view, first, &split),
            split,
            shares: shares(view, &blocks),
            largest: largest(view, &blocks),
        })
    }
}

/// What would be held with a request as one more block from upstream, in whole pages, whatever is
/// free in pieces.
fn needed(failure: &ViewFailure, split: &Split) -> u64 {
    split.held_bytes.saturating_add(in_pages(failure.size))
}

fn in_pages(size: u64) -> u64 {
    size.checked_next_multiple_of(PAGE).unwrap_or(size)
}

/// What is lacking even without a free byte between blocks.
fn short(failure: &ViewFailure, split: &Split) -> Option<u64> {
    // A limit of one part of a resource is not about all that is live.
    let live = failure.limit.map_or(u64::MAX, |limit| limit.used).min(split.live_bytes());
    let packed = live.saturating_add(failure.size);
    let most = failure.limit.map(|limit| limit.most);
    let most = most.or(split.is_known.then_some(split.held_bytes))?;
    Some(packed.saturating_sub(most))
}

impl WhatItTakes {
    fn of(view: &View, failure: &ViewFailure, split: &Split) -> Self {
        let size = failure.size;
        let (free_bytes, hole_bytes) = (split.free_bytes(), split.largest_hole_bytes);
        if !split.is_known {
            return Self::Total { bytes: split.live_bytes().saturating_add(size) };
        }
        // A limit of what is allocated is below what is held.
        let is_of_live = |limit: ViewLimit| limit.used < split.held_bytes;
        let counts = |limit| if is_of_live(limit) { size } else { in_pages(size) };
        let enough = |limit: ViewLimit| limit.used.saturating_add(counts(limit));
        let limit = failure.limit.filter(|limit| !limit.is_device);
        let lacks = |limit: ViewLimit| enough(limit).saturating_sub(limit.most);
        if let Some(limit) = limit
            && is_of_live(limit)
            && lacks(limit) > 0
        {
            // It refuses whatever is free below it.
            let (missing_bytes, limit_bytes) = (lacks(limit), enough(limit));
            Self::Limit { missing_bytes, limit_bytes, is_of_live: true }
        } else if size <= hole_bytes {
            Self::Wait { hole_bytes }
        } else if free_bytes >= size {
            let whole_free_bytes = split.whole_free_bytes;
            let joins_pages = view.replay.is_some_and(|replay| replay.joins_pages);
            Self::Join {
                free_bytes,
                whole_free_bytes,
                pages_are_enough: whole_free_bytes >= in_pages(size) && !joins_pages,
                limit_bytes: limit.map(enough),
            }
        } else if let Some(limit) = limit
            && let missing_bytes @ 1.. = lacks(limit)
        {
            Self::Limit { missing_bytes, limit_bytes: enough(limit), is_of_live: false }
        } else {
            Self::More { missing_bytes: size - free_bytes }
        }
    }
}
