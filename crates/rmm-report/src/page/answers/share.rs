//! Who holds bytes: shares by tag, by site, by stream and by size, and single blocks.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use crate::format;
use crate::page::view::{NEVER, View, ViewBlock};

/// The longest lists.
pub(crate) const ROWS: usize = 5;

/// The names of the shares of blocks without one.
pub(crate) const NO_TAG: &str = "no tag";
pub(crate) const NO_SITE: &str = "no site";

/// What a share has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// The tag.
    Tag,
    /// The call site.
    Site,
    /// The size that was asked for.
    Size,
    /// The stream.
    Stream,
}

impl Grouping {
    /// The kinds by which a view can be told apart: tags and sites where it has any.
    pub(crate) fn of(view: &View) -> Vec<Self> {
        let has = |names: &[String]| names.iter().any(|name| !name.is_empty());
        let mut kinds = Vec::new();
        kinds.extend(has(&view.names.tags).then_some(Self::Tag));
        kinds.extend(has(&view.names.sites).then_some(Self::Site));
        kinds.push(Self::Size);
        kinds.extend((view.names.streams.len() > 1).then_some(Self::Stream));
        kinds
    }

    /// The heading above a list of them.
    pub(crate) const fn heading(self) -> &'static str {
        match self {
            Self::Tag => "By tag",
            Self::Site => "By call site",
            Self::Size => "By size",
            Self::Stream => "By stream",
        }
    }

    /// The heading above differences of what is live at two peaks.
    pub(crate) const fn at_the_peaks(self) -> &'static str {
        match self {
            Self::Tag => "At the peaks, by tag",
            Self::Site => "At the peaks, by call site",
            Self::Size => "At the peaks, by size",
            Self::Stream => "At the peaks, by stream",
        }
    }

    /// The number of a block's share.
    pub(crate) fn key(self, block: &ViewBlock) -> u64 {
        match self {
            Self::Tag => block.tag.into(),
            Self::Site => block.site.into(),
            Self::Size => block.size,
            Self::Stream => block.stream.into(),
        }
    }

    /// What the share is called.
    pub(crate) fn name(self, view: &View, key: u64) -> String {
        let index = usize::try_from(key).unwrap_or(usize::MAX);
        let name = |names: &[String], unknown: &str| match names.get(index) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => unknown.to_owned(),
        };
        match self {
            Self::Tag => name(&view.names.tags, NO_TAG),
            Self::Site => name(&view.names.sites, NO_SITE),
            Self::Size => format!("blocks of {}", format::bytes(key)),
            Self::Stream => format!("stream {}", name(&view.names.streams, "unknown")),
        }
    }
}

/// Blocks that have something in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// What they have in common.
    pub kind: Grouping,
    /// Its name.
    pub name: String,
    /// Their bytes.
    pub bytes: u64,
    /// How many they are.
    pub blocks: u64,
}

/// The largest shares of some blocks, of each kind that the view has.
pub(crate) fn shares(view: &View, blocks: &[&ViewBlock]) -> Vec<Share> {
    Grouping::of(view).into_iter().flat_map(|kind| of_kind(view, blocks, kind)).collect()
}

fn of_kind(view: &View, blocks: &[&ViewBlock], kind: Grouping) -> Vec<Share> {
    let mut sums: HashMap<u64, (u64, u64)> = HashMap::new();
    for block in blocks {
        let sum = sums.entry(kind.key(block)).or_default();
        *sum = (sum.0.saturating_add(block.aligned()), sum.1 + 1);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|&(key, (bytes, _))| (Reverse(bytes), key));
    sums.truncate(ROWS);
    let share = |(key, (bytes, blocks))| Share { kind, name: kind.name(view, key), bytes, blocks };
    sums.into_iter().map(share).collect()
}

/// One block, for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Bytes, as they were asked for.
    pub bytes: u64,
    /// The position from which it is live.
    pub start: u32,
    /// The position from which it is not, if it is freed.
    pub end: Option<u32>,
    /// The stream.
    pub stream: String,
    /// The tag, empty if there is none.
    pub tag: String,
    /// The call site, empty if it is not known.
    pub site: String,
}

impl Holder {
    fn of(view: &View, block: &ViewBlock) -> Self {
        let name =
            |names: &[String], index: u32| names.get(index as usize).cloned().unwrap_or_default();
        Self {
            bytes: block.size,
            start: block.start,
            end: (block.end != NEVER).then_some(block.end),
            stream: name(&view.names.streams, block.stream),
            tag: name(&view.names.tags, block.tag),
            site: name(&view.names.sites, block.site),
        }
    }
}

/// The largest of some blocks.
pub(crate) fn largest(view: &View, blocks: &[&ViewBlock]) -> Vec<Holder> {
    let mut blocks = blocks.to_vec();
    let by_size = |block: &&ViewBlock| (Reverse(block.size), block.start);
    if blocks.len() > ROWS {
        blocks.select_nth_unstable_by_key(ROWS, by_size);
        blocks.truncate(ROWS);
    }
    blocks.sort_unstable_by_key(by_size);
    blocks.into_iter().map(|block| Holder::of(view, block)).collect()
}

/// The blocks that are live at a position.
pub(crate) fn live_at(view: &View, position: u32) -> Vec<&ViewBlock> {
    let started = view.blocks.partition_point(|block| block.start <= position);
    view.blocks[..started].iter().filter(|block| block.is_live(position)).collect()
}
