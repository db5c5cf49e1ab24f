//! The table of targets: for a terminal, and for a page.

#![forbid(unsafe_code)]

use comfy_table::{Table, TableStyle, presets};
use rmm_cli::table::of_figures;

use super::number::short;
use super::targets::{Judged, Limit, Times, Verdict};

const COLUMNS: [&str; 9] =
    ["work", "unit", "ours", "wanted", "RMM pool", "times", "best peer", "times", "met"];

/// The table as text, and how many targets are met.
pub fn terminal(judged: &[Judged]) -> String {
    format!("{}\n{}\n", table(judged, presets::ASCII_BORDERS_ONLY_CONDENSED), verdict(judged))
}

/// The same in Markdown.
pub(super) fn markdown(judged: &[Judged]) -> String {
    format!("{}\n\n{}\n", table(judged, presets::ASCII_MARKDOWN), verdict(judged))
}

fn verdict(judged: &[Judged]) -> String {
    let count = |verdict| judged.iter().filter(|judged| judged.verdict() == verdict).count();
    let (met, missed) = (count(Verdict::Met), count(Verdict::Missed));
    let others = count(Verdict::NotMeasured);
    format!("Targets: {met} met, {missed} missed, {others} not measured.")
}

fn table(judged: &[Judged], style: TableStyle) -> Table {
    let mut table = of_figures(style, COLUMNS, 2);
    // A run of some workloads only is not shown with empty lines for the others.
    let is_measured = |judged: &&Judged| {
        judged.ours.is_some() || judged.rmm_pool.is_some() || judged.best_peer.is_some()
    };
    table.add_rows(judged.iter().filter(is_measured).map(cells));
    table
}

fn cells(judged: &Judged) -> [String; 9] {
    let best = judged.best_peer.as_ref();
    // What is near a bound is not to look as if it were on it.
    let exact = |value: f64| if judged.unit == "x" { format!("{value:.3}") } else { short(value) };
    [
        judged.label.to_owned(),
        judged.unit.clone(),
        judged.ours.map_or_else(none, exact),
        wanted(judged),
        number(judged.rmm_pool),
        times(judged.than_rmm_pool),
        best.map_or_else(none, |(name, value)| format!("{} {name}", short(*value))),
        times(judged.than_best_peer),
        match judged.verdict() {
            Verdict::Met => "yes".to_owned(),
            Verdict::Missed => "NO".to_owned(),
            Verdict::NotMeasured => none(),
        },
    ]
}

/// The limit, and what several threads are to be of one.
fn wanted(judged: &Judged) -> String {
    let limit = match judged.limit {
        Limit::None => none(),
        Limit::AtMost(bound) => format!("<= {bound}"),
        Limit::AtLeast(bound) => format!(">= {bound}"),
    };
    match judged.than_one_thread {
        Times { at_least: Some(at_least), measured } => {
            format!("{limit}, {at_least}x T=1 (is {}x)", number(measured))
        }
        Times { at_least: None, .. } => limit,
    }
}

fn times(times: Times) -> String {
    match (times.measured, times.at_least) {
        (None, None) => none(),
        (Some(measured), None) => format!("{}x", short(measured)),
        (measured, Some(at_least)) => format!("{}x of {at_least}x", number(measured)),
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(none, short)
}

fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{fixture, judge};

    #[test]
    fn each_target_is_a_line_that_says_whether_it_is_met() {
        let judged = judge(&fixture::figures(), "pool");
        let text = markdown(&judged);
        let line = |label: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("| {label} ")));
            line.unwrap().split('|').map(str::trim).collect::<Vec<_>>().join("|")
        };
        assert_eq!(
            line("pair, 4 KiB"),
            "|pair, 4 KiB|ns/pair|20.0|<= 20|472|23.6x of 15x|218 RMM arena|10.9x of 7x|yes|"
        );
        assert_eq!(
            line("16 threads"),
            "|16 threads|Mops/s|110|>= 100, 10x T=1 (is 5.00x)|0.63|175x|4.34 RMM arena|25.3x of 20x|NO|"
        );
        assert_eq!(
            line("gnn-train, reserved / peak"),
            "|gnn-train, reserved / peak|x|1.120|<= 1.15|-|-|-|-|yes|"
        );
        assert_eq!(
            line("migrate, 1,000 calls a round"),
            "|migrate, 1,000 calls a round|Mops/s|39.0|>= 40|-|-|5.19 RMM arena|7.51x|NO|"
        );
        assert!(!text.contains("| handoff "), "it was measured by none");
        assert!(text.contains("\n\nTargets: 9 met, 7 missed, 39 not measured.\n"), "{text}");
    }
}
