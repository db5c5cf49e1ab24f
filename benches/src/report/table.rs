//! The table of all figures: for a terminal, and for a page.

#![forbid(unsafe_code)]

use comfy_table::{CellAlignment, ContentArrangement, Row, Table, TableStyle, presets};

use super::figures::{Figures, higher_is_better};
use super::number::short;

/// An empty table as wide as its content, with figures in all but the first columns.
pub(super) fn of_figures(style: TableStyle, header: impl Into<Row>, first_figure: usize) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for column in table.column_iter_mut().skip(first_figure) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

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
