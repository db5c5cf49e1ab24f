//! The table of adaptor costs, beside RMM's adaptors of the same names.

#![forbid(unsafe_code)]

use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle, presets};

use super::bars::Panel;
use super::figures::Figures;
use super::number::short;
use super::subject::Subject;
use super::targets::Verdict;

const COLUMNS: [&str; 11] = [
    "adaptor",
    "ours",
    "RMM's",
    "times",
    "ours adds",
    "RMM's adds",
    "times",
    "ours alone",
    "RMM's alone",
    "times",
    "met",
];

/// How many times less than RMM's an adaptor of ours is to take alone.
const LESS: f64 = 5.0;

/// Nanoseconds that two runs of the same differ by: what adds less is not to look as if it were
/// infinitely better.
const RESOLUTION: f64 = 0.5;

/// The pair of one runner: what it takes through the adaptor, how much of that the adaptor adds to
/// its pool, and what it adds to a resource that does nothing.
#[derive(Clone, Copy)]
struct Cost {
    through: f64,
    added: f64,
    alone: Option<f64>,
}

struct Adaptor<'a> {
    name: &'a str,
    ours: Option<Cost>,
    rmm: Option<Cost>,
}

impl Adaptor<'_> {
    fn times(&self, of: impl Fn(Cost) -> Option<f64>) -> Option<f64> {
        let (ours, rmm) = (of(self.ours?)?, of(self.rmm?)?);
        // A ratio to nothing means nothing.
        (rmm > 0.0).then(|| rmm / ours.max(RESOLUTION))
    }

    /// By what it takes alone, or over the pool if that was not measured.
    fn verdict(&self) -> Verdict {
        match self.times(|cost| cost.alone.or(Some(cost.added))) {
            Some(times) if times >= LESS => Verdict::Met,
            Some(_) => Verdict::Missed,
            None => Verdict::NotMeasured,
        }
    }

    fn cells(&self) -> [String; 11] {
        let number = |value: Option<f64>| value.map_or_else(none, short);
        let row = |of: fn(Cost) -> Option<f64>| {
            let times = self.times(of).map_or_else(none, |times| short(times) + "x");
            [number(self.ours.and_then(of)), number(self.rmm.and_then(of)), times]
        };
        let [ours, rmm, times] = row(|cost| Some(cost.through));
        let [ours_added, rmm_added, times_added] = row(|cost| Some(cost.added));
        let [ours_alone, rmm_alone, times_alone] = row(|cost| cost.alone);
        let met = match self.verdict() {
            Verdict::Met => "yes".to_owned(),
            Verdict::Missed => "NO".to_owned(),
            Verdict::NotMeasured => none(),
        };
        [
            self.name.to_owned(),
            ours,
            rmm,
            times,
            ours_added,
            rmm_added,
            times_added,
            ours_alone,
            rmm_alone,
            times_alone,
            met,
        ]
    }
}

fn none() -> String {
    "-".to_owned()
}

/// The adaptors, in the order in which they were measured.
fn all(figures: &Figures) -> Vec<Adaptor<'_>> {
    let cost = |subject: Subject, name: &str| {
        let value = |workload| figures.value(&subject, workload, name);
        let alone = value("adaptor_over_nothing");
        let over_pool = value("adaptor").zip(value("adaptor_own"));
        over_pool.map(|(through, added)| Cost { through, added, alone })
    };
    let works = figures.works().filter(|((workload, _), _)| workload == "adaptor");
    works
        .map(|((_, name), _)| Adaptor {
            name,
            ours: cost(Subject::ours("pool"), name),
            rmm: cost(Subject::peer("pool"), name),
        })
        .collect()
}

/// The table as text; nothing if no adaptor was measured.
pub fn terminal(figures: &Figures) -> String {
    table(figures, presets::ASCII_BORDERS_ONLY_CONDENSED)
        .map(|table| format!("Adaptors over the pool, ns/pair:\n{table}\n"))
        .unwrap_or_default()
}

/// A section of a page; nothing if no adaptor was measured.
pub(super) fn markdown(figures: &Figures) -> String {
    let Some(table) = table(figures, presets::ASCII_MARKDOWN) else { return String::new() };
    format!(
        "\n## Adaptors\n\nNanoseconds of a pair of 4 KiB through the adaptor, over each runner's own pool; what the adaptor adds to \
         that of the bare pool; and, alone, what it adds to a resource that does nothing. Both of each are measured in turns. Over a pool a \
         part of an adaptor's work is done while the processor waits for the pool's. An adaptor of ours is to take {LESS} times less than \
         RMM's alone; less than {RESOLUTION} ns counts as {RESOLUTION}.\n\n{table}\n"
    )
}

fn table(figures: &Figures, style: TableStyle) -> Option<Table> {
    let adaptors = all(figures);
    if adaptors.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table.load_style(style).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(COLUMNS).add_rows(adaptors.iter().map(Adaptor::cells));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Some(table)
}

/// A panel for each adaptor that both have, alone.
pub(super) fn panels(figures: &Figures) -> Vec<Panel> {
    let alone = |cost: Option<Cost>| cost.is_some_and(|cost| cost.alone.is_some());
    let both = all(figures).into_iter().filter(|one| alone(one.ours) && alone(one.rmm));
    both.map(|Adaptor { name, .. }| Panel {
        title: format!("{name}, ns a pair, over nothing"),
        workload: "adaptor_over_nothing",
        params: name.to_owned(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn what_an_adaptor_adds_is_held_against_rmm_s() {
        let text = markdown(&fixture::figures());
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("| {name} ")));
            line.unwrap().split('|').map(str::trim).collect::<Vec<_>>().join("|")
        };
        assert_eq!(
            line("statistics"),
            "|statistics|35.0|512|14.6x|5.00|40.0|8.00x|4.00|40.0|10.0x|yes|"
        );
        assert_eq!(
            line("limiting"),
            "|limiting|34.0|484|14.2x|4.00|12.0|3.00x|2.50|10.0|4.00x|NO|"
        );
        assert_eq!(
            line("failure_callback"),
            "|failure_callback|30.0|475|15.8x|-0.10|3.00|6.00x|0.01|5.00|10.0x|yes|",
            "nothing is not infinitely better"
        );
        assert_eq!(
            line("callback"),
            "|callback|33.0|470|14.2x|3.00|-2.00|-|2.00|3.00|1.50x|NO|",
            "what RMM's adds to its pool is below what can be measured"
        );
        assert_eq!(line("tagged"), "|tagged|41.0|-|-|11.0|-|-|10.0|-|-|-|", "RMM has none");
        assert_eq!(
            line("prefetch"),
            "|prefetch|32.0|1800|56.2x|2.00|1400|700x|-|-|-|yes|",
            "not measured alone"
        );
        let panels = panels(&fixture::figures());
        assert!(panels.iter().map(|panel| &panel.params).eq([
            "statistics",
            "limiting",
            "failure_callback",
            "callback"
        ]));
    }

    #[test]
    fn a_run_without_adaptors_has_no_table() {
        let rows = "runner,pass,workload,allocator,params,value,unit\nours,1,pair,pool,size=256,31,ns/pair\n";
        let figures = Figures::read(rows.as_bytes()).unwrap();
        assert_eq!(terminal(&figures) + &markdown(&figures), "");
    }
}
