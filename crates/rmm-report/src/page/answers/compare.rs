//! What changed between two views.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::Answers;
use super::growth::{Grower, Growth};
use super::share::{Grouping, ROWS, live_at};
use crate::page::view::View;

/// The difference between two views.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The first.
    pub before: String,
    /// The second.
    pub after: String,
    /// Figures of both: what, the first's, the second's.
    pub figures: Vec<(&'static str, Option<u64>, Option<u64>)>,
    /// What grows in the first only, or in the second only, by tag, by site, or else by size.
    pub growth_changes: Vec<GrowthChange>,
    /// What holds more or less at the peaks, by tag, by site, or else by size.
    pub shares: Vec<Changed>,
    /// What the shares have in common.
    pub kind: Grouping,
}

/// What grows in one of two views only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrowthChange {
    /// Its name.
    pub name: String,
    /// What it has in common.
    pub kind: Grouping,
    /// By how much it grows in the view in which it does.
    pub bytes: u64,
    /// Whether it grows in the second.
    pub is_new: bool,
}

/// A share of the peak, in two views.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// Bytes at the first's peak.
    pub before: u64,
    /// Bytes at the second's.
    pub after: u64,
}

impl Changed {
    fn by(&self) -> u64 {
        self.before.abs_diff(self.after)
    }
}

impl Compared {
    /// Compares two views with their answers, each with its name.
    pub fn of(before: (&str, &View, &Answers), after: (&str, &View, &Answers)) -> Self {
        let (names, before, after) =
            ([before.0, after.0], (before.1, before.2), (after.1, after.2));
        let both = |what, figure: &dyn Fn(&Answers) -> Option<u64>| {
            (what, figure(before.1), figure(after.1))
        };
        let figures = vec![
            both("events", &|answers| Some(answers.events.into())),
            both("peak live bytes", &|answers| Some(answers.peak.bytes)),
            both("blocks at the peak", &|answers| Some(answers.peak.blocks)),
            both("most held bytes", &|answers| answers.settings.used_bytes),
            both("failures", &|answers| {
                Some(answers.failed.as_ref().map_or(0, |failed| failed.count))
            }),
            both("waits", &|answers| answers.resource.as_ref().map(|_| answers.settings.waits)),
            both("growth bytes", &|answers| {
                answers.growth.is_known.then_some(answers.growth.bytes)
            }),
            both("never freed bytes", &|answers| Some(answers.leaked_bytes)),
        ];
        let kinds = [Grouping::of(before.0), Grouping::of(after.0)];
        let has = |kind| kinds.iter().all(|kinds| kinds.contains(&kind));
        let kind = [Grouping::Tag, Grouping::Site]
            .into_iter()
            .find(|&kind| has(kind))
            .unwrap_or(Grouping::Size);
        let growth_changes = growth_changes(kind, before.1, after.1);
        let mut sums: BTreeMap<String, Changed> = BTreeMap::new();
        for (is_after, (view, answers)) in [(false, before), (true, after)] {
            for block in live_at(view, answers.peak.position) {
                let name = kind.name(view, kind.key(block));
                let sum = sums.entry(name.clone()).or_insert(Changed { name, before: 0, after: 0 });
                *(if is_after { &mut sum.after } else { &mut sum.before }) += block.aligned();
            }
        }
        let mut shares: Vec<Changed> = sums.into_values().filter(|share| share.by() > 0).collect();
        shares.sort_by_key(|share| Reverse(share.by()));
        shares.truncate(ROWS);
        Self {
            before: names[0].to_owned(),
            after: names[1].to_owned(),
            figures,
            growth_changes,
            shares,
            kind,
        }
    }

    /// Whether nothing that is compared differs.
    pub fn is_same(&self) -> bool {
        self.shares.is_empty()
            && self.growth_changes.is_empty()
            && self.figures.iter().all(|(_, before, after)| before == after)
    }
}

/// What stopped or began to grow; what stopped first.
fn growth_changes(kind: Grouping, before: &Answers, after: &Answers) -> Vec<GrowthChange> {
    let (before, after) = (&before.growth, &after.growth);
    if !before.is_known || !after.is_known {
        return Vec::new();
    }
    let only = |one: &Growth, other: &Growth, is_new| -> Vec<GrowthChange> {
        let is_other =
            |grower: &&Grower| other.growers.iter().all(|other| other.name != grower.name);
        let of_kind = one.growers.iter().filter(|grower| grower.kind == kind).filter(is_other);
        let change = |grower: &Grower| GrowthChange {
            name: grower.name.clone(),
            kind,
            bytes: grower.bytes,
            is_new,
        };
        of_kind.map(change).collect()
    };
    [only(before, after, false), only(after, before, true)].concat()
}
