//! Whether memory grows, and what grows, also if it is freed at the end.
//!
//! The run without its end, where a program frees what it has, is cut into windows of as many
//! events. What a program uses again and again rises and falls within each window; the least that
//! is live in a window stays. If it rises from window to window, the program grows.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;

use super::live::Changes;
use super::share::{Grouping, ROWS, live_at};
use crate::page::view::{NEVER, View, ViewBlock};

/// Windows of the run.
const WINDOWS: usize = 8;
/// The first of them, in which programs start.
const START: usize = 2;
/// A share of the growth that one step alone does not have where a program grows steadily.
const ONE_STEP: f64 = 0.6;
/// The fewest events in which growth is looked for.
const FEWEST: u32 = 256;
/// Of this many different sizes, only their powers of two are looked at.
const SIZES: usize = 1 << 14;

/// What grows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// Whether live bytes rise from window to window.
    pub grows: bool,
    /// Whether there are enough events.
    pub is_known: bool,
    /// The positions that are compared: where the least is live, in the first of the windows and in
    /// the last. If the whole does not grow, where the first begins and where the run ends: what
    /// follows frees what is left.
    pub from: u32,
    /// The second of them.
    pub to: u32,
    /// The least that is live in each window.
    pub floors: Vec<u64>,
    /// By how much what grows rises between these positions.
    pub bytes: u64,
    /// What grows, by tag, site, size and stream; the most first, of each kind.
    pub growers: Vec<Grower>,
    /// What is not freed at the end, and does not grow; the most first.
    pub stays: Vec<Stay>,
    /// What grows, by tag and site, or else by stream and size, and by how much; for the page.
    #[serde(skip)]
    pub(crate) groups: Vec<(u64, u64, u64)>,
}

/// Blocks that become more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grower {
    /// What they have in common.
    pub kind: Grouping,
    /// Its name.
    pub name: String,
    /// By how much they grow.
    pub bytes: u64,
    /// Bytes of them that are not freed at the end.
    pub left_bytes: u64,
    /// Those of them that are not made at the start.
    pub lost_bytes: u64,
}

/// Blocks that are not freed at the end, and do not become more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stay {
    /// What they have in common: the first kind by which the view is told apart.
    pub kind: Grouping,
    /// Its name.
    pub name: String,
    /// Their bytes.
    pub bytes: u64,
    /// Whether all of them are made at the start.
    pub is_from_start: bool,
}

impl Growth {
    /// Of a view, whose live bytes at each position are `live`.
    pub(super) fn of(view: &View, live: &[u64]) -> Self {
        let to = end_of_run(live);
        if to < FEWEST {
            return Self::default();
        }
        let mut kinds = Grouping::of(view);
        kinds.retain(|kind| *kind != Grouping::Stream);
        let are_many = has_many_sizes(view);
        let windows = Windows { to };
        let mut all = Floor::default();
        let mut floors: HashMap<(Grouping, u64), Floor> = HashMap::new();
        let is_named = kinds.iter().any(|kind| matches!(kind, Grouping::Tag | Grouping::Site));
        let pair = |block: &ViewBlock| {
            if is_named {
                (u64::from(block.tag), u64::from(block.site))
            } else {
                (u64::from(block.stream), block.size)
            }
        };
        let mut groups: HashMap<(u64, u64), Floor> = HashMap::new();
        let key = |kind: Grouping, block: &ViewBlock| match kind {
            Grouping::Size if are_many => {
                block.size.checked_next_power_of_two().unwrap_or(block.size)
            }
            _ => kind.key(block),
        };
        for (position, block, is_live) in Changes::of(view) {
            if position > to {
                break;
            }
            let window = windows.of(position);
            all.change(window, block.aligned(), is_live);
            if is_named || !are_many {
                groups.entry(pair(block)).or_default().change(window, block.aligned(), is_live);
            }
            for &kind in &kinds {
                let floor = floors.entry((kind, key(kind, block))).or_default();
                floor.change(window, block.aligned(), is_live);
            }
        }
        let peak = live.iter().copied().max().unwrap_or(0);
        let bytes = all.growth(peak);
        let ends = bytes.map(|_| [windows.lowest(live, START), windows.lowest(live, WINDOWS - 1)]);
        let [from, end] = ends.unwrap_or([windows.start(START), to]);
        let of_kinds = |block: &ViewBlock| -> Vec<(Grouping, u64)> {
            kinds.iter().map(|&kind| (kind, key(kind, block))).collect()
        };
        let parts = rises(view, ends, of_kinds);
        let parts_of_groups = rises(view, ends, |block| vec![pair(block)]);
        let left = left_of(view, windows, of_kinds);
        let mut growers: Vec<(Grouping, u64, u64)> = floors
            .into_iter()
            .filter_map(|((kind, key), floor)| {
                let bytes = floor.growth(peak)?;
                Some((kind, key, parts.get(&(kind, key)).copied().unwrap_or(bytes)))
            })
            .collect();
        growers.sort_unstable_by_key(|&(kind, key, bytes)| (kind, Reverse(bytes), key));
        // Of the first kind in which something grows.
        let of_first = growers.iter().take_while(|grower| grower.0 == growers[0].0);
        let named = of_first.fold(0_u64, |sum, grower| sum.saturating_add(grower.2));
        let mut counts: HashMap<Grouping, usize> = HashMap::new();
        growers.retain(|&(kind, ..)| {
            let count = counts.entry(kind).or_default();
            *count += 1;
            *count <= ROWS
        });
        let name = |kind: Grouping, key| match kind {
            Grouping::Size if are_many => format!("blocks of up to {}", crate::format::bytes(key)),
            _ => kind.name(view, key),
        };
        let grower = |(kind, key, bytes)| {
            let left = left.get(&(kind, key)).copied().unwrap_or_default();
            let (left_bytes, lost_bytes) = (left.all(), left.lost());
            Grower { kind, name: name(kind, key), bytes, left_bytes, lost_bytes }
        };
        let first = growers.first().map_or(Grouping::Size, |grower| grower.0);
        let is_grower = |key| growers.iter().any(|grower| (grower.0, grower.1) == (first, key));
        let stays = stays(&left, first, is_grower, name);
        let growers: Vec<Grower> = growers.into_iter().map(grower).collect();
        let group = |((one, other), floor): ((u64, u64), Floor)| {
            let bytes = floor.growth(peak)?;
            Some((one, other, parts_of_groups.get(&(one, other)).copied().unwrap_or(bytes)))
        };
        let mut groups: Vec<_> = groups.into_iter().filter_map(group).collect();
        groups.sort_unstable();
        Self {
            grows: bytes.is_some() || !growers.is_empty(),
            is_known: true,
            from,
            to: end,
            // The whole rises and falls with other things, too: what grows is what counts, unless
            // more grows than has a name.
            bytes: match bytes {
                Some(bytes) if named.abs_diff(bytes) > bytes / 10 => bytes,
                _ => named,
            },
            floors: all.finished().to_vec(),
            growers,
            stays,
            groups,
        }
    }
}

/// What is not freed at the end, by what its blocks have in common.
fn left_of(
    view: &View,
    windows: Windows,
    kinds: impl Fn(&ViewBlock) -> Vec<(Grouping, u64)>,
) -> HashMap<(Grouping, u64), Left> {
    let mut left: HashMap<(Grouping, u64), Left> = HashMap::new();
    for block in view.blocks.iter().filter(|block| block.end == NEVER) {
        let is_late = block.start > windows.to || windows.of(block.start) > 0;
        for part in kinds(block) {
            left.entry(part).or_default().add(block.aligned(), is_late);
        }
    }
    left
}

/// What of one kind is not freed at the end and does not grow; the most first.
fn stays(
    left: &HashMap<(Grouping, u64), Left>,
    kind: Grouping,
    is_grower: impl Fn(u64) -> bool,
    name: impl Fn(Grouping, u64) -> String,
) -> Vec<Stay> {
    let of_kind = left.iter().filter(|((of, _), _)| *of == kind);
    let mut stays: Vec<Stay> = of_kind
        .map(|(&(_, key), left)| left.stay(kind, name(kind, key), is_grower(key)))
        .filter(|stay| stay.bytes > 0)
        .collect();
    stays.sort_by(|one, next| next.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&next.name)));
    stays.truncate(ROWS);
    stays
}

/// Bytes that are not freed at the end.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// Made in the first window.
    early: u64,
    late: u64,
}

impl Left {
    fn add(&mut self, bytes: u64, is_late: bool) {
        let part = if is_late { &mut self.late } else { &mut self.early };
        *part = part.saturating_add(bytes);
    }

    fn all(self) -> u64 {
        self.early.saturating_add(self.late)
    }

    /// What of it does not grow.
    fn stay(self, kind: Grouping, name: String, grows: bool) -> Stay {
        let (bytes, is_from_start) =
            if grows { (self.all() - self.lost(), true) } else { (self.all(), self.late == 0) };
        Stay { kind, name, bytes, is_from_start }
    }

    /// What grows of it: the first window counts where it has no more than two others.
    fn lost(self) -> u64 {
        let others = WINDOWS as u64 - 1;
        if self.early > self.late / others * 2 { self.late } else { self.all() }
    }
}

/// By how much parts of a view rise from one position to another. Where the whole grows, its parts
/// are compared at the same two positions, so that they add up to it.
fn rises<K: Eq + Hash>(
    view: &View,
    ends: Option<[u32; 2]>,
    keys: impl Fn(&ViewBlock) -> Vec<K>,
) -> HashMap<K, u64> {
    let mut parts: HashMap<K, [u64; 2]> = HashMap::new();
    for (index, position) in ends.into_iter().flatten().enumerate() {
        for block in live_at(view, position) {
            for key in keys(block) {
                parts.entry(key).or_default()[index] += block.aligned();
            }
        }
    }
    let rise = |(key, [before, after]): (K, [u64; 2])| Some((key, after.checked_sub(before)?));
    parts.into_iter().filter_map(rise).filter(|(_, bytes)| *bytes > 0).collect()
}

/// The position at which the run ends and its end begins, in which a program frees what is left:
/// the longest such end, in which at most one change in ten is an allocation.
fn end_of_run(live: &[u64]) -> u32 {
    let (mut score, mut best, mut end) = (0_i64, 0, live.len().saturating_sub(1));
    for position in (1..live.len()).rev() {
        score += match live[position].cmp(&live[position - 1]) {
            Ordering::Less => 1,
            Ordering::Equal => 0,
            Ordering::Greater => -9,
        };
        if score > best {
            (best, end) = (score, position - 1);
        }
    }
    u32::try_from(end).unwrap_or(NEVER - 1)
}

fn has_many_sizes(view: &View) -> bool {
    let mut sizes = std::collections::HashSet::new();
    view.blocks.iter().any(|block| sizes.insert(block.size) && sizes.len() > SIZES)
}

#[derive(Clone, Copy, Debug)]
struct Windows {
    to: u32,
}

impl Windows {
    #[expect(clippy::cast_possible_truncation, reason = "below WINDOWS")]
    fn of(self, position: u32) -> usize {
        let window = u64::from(position) * WINDOWS as u64 / (u64::from(self.to) + 1);
        window as usize
    }

    fn start(self, window: usize) -> u32 {
        let start = (u64::from(self.to) + 1) * window as u64 / WINDOWS as u64;
        u32::try_from(start).unwrap_or(self.to)
    }

    /// The first position at which the least is live in a window or where it begins.
    fn lowest(self, live: &[u64], window: usize) -> u32 {
        let first = self.start(window).saturating_sub(1);
        let next = if window + 1 < WINDOWS { self.start(window + 1) } else { self.to + 1 };
        let least = (first..next).min_by_key(|&position| live[position as usize]);
        least.unwrap_or(first)
    }
}

/// The least that is live of something, in each window so far.
#[derive(Clone, Debug, Default)]
struct Floor {
    live: u64,
    window: usize,
    least: [u64; WINDOWS],
}

impl Floor {
    fn change(&mut self, window: usize, bytes: u64, is_live: bool) {
        while self.window < window {
            self.window += 1;
            self.least[self.window] = self.live;
        }
        self.live =
            if is_live { self.live.saturating_add(bytes) } else { self.live.saturating_sub(bytes) };
        self.least[window] = self.least[window].min(self.live);
    }

    fn finished(&self) -> [u64; WINDOWS] {
        let mut least = self.least;
        least[self.window + 1..].fill(self.live);
        least
    }

    /// By how much it grows, if it does: never falls, rises in all steps but one, not in one step
    /// alone, and by at least a thousandth of the peak.
    #[expect(clippy::cast_precision_loss, reason = "a share of a sum")]
    fn growth(&self, peak: u64) -> Option<u64> {
        let least = self.finished();
        let steps: Vec<u64> = least[START..]
            .windows(2)
            .map(|pair| pair[1].checked_sub(pair[0]))
            .collect::<Option<_>>()?;
        let bytes: u64 = steps.iter().sum();
        let rises = steps.iter().filter(|&&step| step > 0).count();
        let largest = steps.iter().copied().max().unwrap_or(0);
        let is_steady = rises + 1 >= steps.len() && (largest as f64) <= bytes as f64 * ONE_STEP;
        (is_steady && bytes > 0 && bytes >= peak / 1000).then_some(bytes)
    }
}
