//! The first request that failed, what there was then, and what would have let it succeed.

use serde::Serialize;

use super::share::{Holder, Share, largest, live_at, shares};
use super::split::Split;
use crate::page::view::{View, ViewLimit};

/// The first failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// How many requests failed.
    pub count: u64,
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
        /// How much larger the largest piece would have to be.
        missing_bytes: u64,
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
    /// The first failure of a view.
    pub(super) fn of(view: &View) -> Option<Self> {
        let first = view.failures.first()?;
        let split = Split::of(view, first.position);
        let blocks = live_at(view, first.position);
        let name =
            |names: &[String], index: u32| names.get(index as usize).cloned().unwrap_or_default();
        Some(Self {
            count: view.failed,
            position: first.position,
            time_ns: view.time(first.position),
            bytes: first.size,
            stream: name(&view.names.streams, first.stream),
            tag: name(&view.names.tags, first.tag),
            site: name(&view.names.sites, first.site),
            text: first.text.clone(),
            remedy: WhatItTakes::of(first.size, first.limit, &split),
            split,
            shares: shares(view, &blocks),
            largest: largest(view, &blocks),
        })
    }
}

impl WhatItTakes {
    fn of(size: u64, limit: Option<ViewLimit>, split: &Split) -> Self {
        let (free_bytes, hole_bytes) = (split.free_bytes(), split.largest_hole_bytes);
        if !split.is_known {
            return Self::Total { bytes: split.live_bytes().saturating_add(size) };
        }
        let missing_bytes = size.saturating_sub(hole_bytes);
        if missing_bytes == 0 {
            Self::Wait { hole_bytes }
        } else if free_bytes >= size {
            Self::Join { free_bytes, missing_bytes }
        } else if let Some(limit) = limit
            && let missing_bytes @ 1.. = size.saturating_sub(limit.most.saturating_sub(limit.used))
        {
            // As one more block from upstream, whatever is free in pieces.
            Self::Limit { missing_bytes, limit_bytes: limit.most.saturating_add(missing_bytes) }
        } else {
            Self::More { missing_bytes: size - free_bytes }
        }
    }
}
