//! Reports of a run: a table of all figures, and a page of the documentation.

mod figures;
mod number;
mod page;
mod round_trips;
mod subject;
mod table;

pub use figures::Figures;
pub use page::{Page, write as write_page};
pub use round_trips::terminal as round_trips;
pub use subject::{ReportSubject, Runner};
pub use table::terminal as all_figures;

#[cfg(test)]
mod fixture;
