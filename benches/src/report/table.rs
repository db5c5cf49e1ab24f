//! The table of all figures: for a terminal, and for a page.

#![forbid(unsafe_code)]

use comfy_table::{Table, TableStyle, presets};
use rmm_cli::table::of_figures;

use super::figures::{Figures, higher_is_better};
use super::number::short;

/// Every figure of every allocator, as text.
pub fn terminal(figures: &Figures) -> String {
    format!("{}\n", table(figures, presets::ASCII_BORDERS_ONLY_CONDENSED))
}

/// The same in Markdown.
pub(super) fn markdown(figures: &Figures) -> String {
    table(figures, presets::ASCII_MARKDOWN).to_string()
}

fn table(figures: &Figures, style: TableStyle) -> Table {
    let subjects = figures.subjects();
    let names = subjects.iter().map(|subject| subject.label());
    let header = ["work", "unit", "better"].map(str::to_owned).into_iter().chain(names);
    let mut table = of_figures(style, header, 3);
    for ((workload, params), unit) in figures.works() {
        let value = |subject| figures.value(subject, workload, params);
        let values = subjects.iter().map(|subject| value(subject).map(short).unwrap_or_default());
        let better = if higher_is_better(unit) { "more" } else { "less" };
        let work = [format!("{workload} {params}"), unit.to_owned(), better.to_owned()];
        table.add_row(work.into_iter().chain(values));
    }
    table
}
