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
    /// More memory, or less that is live.
    More {
        /// By how much.
        missing_bytes: u64,
    },
    /// A higher limit of the resource.
    Limit {
        /// By how much.
        missing_bytes: u64,
        /// The limit that is enough.
        limit_bytes: u64,
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
            limit_bytes: first.limit.map(|limit| limit.most),
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

impl WhatItTakes {
    fn of(view: &View, failure: &ViewFailure, split: &Split) -> Self {
        let size = failure.size;
        let (free_bytes, hole_bytes) = (split.free_bytes(), split.largest_hole_bytes);
        if !split.is_known {
            return Self::Total { bytes: split.live_bytes().saturating_add(size) };
        }
        // Pools take whole pages from upstream.
        let in_pages = size.checked_next_multiple_of(PAGE).unwrap_or(size);
        // As one more block from upstream, whatever is free in pieces.
        let enough = |limit: ViewLimit| limit.used.saturating_add(in_pages);
        if size <= hole_bytes {
            Self::Wait { hole_bytes }
        } else if free_bytes >= size {
            let whole_free_bytes = split.whole_free_bytes;
            let joins_pages = view.replay.is_some_and(|replay| replay.joins_pages);
            Self::Join {
                free_bytes,
                whole_free_bytes,
                pages_are_enough: whole_free_bytes >= in_pages && !joins_pages,
                limit_bytes: failure.limit.map(enough),
            }
        } else if let Some(limit) = failure.limit
            && let missing_bytes @ 1.. = enough(limit).saturating_sub(limit.most)
        {
            Self::Limit { missing_bytes, limit_bytes: enough(limit) }
        } else {
            Self::More { missing_bytes: size - free_bytes }
        }
    }
}
