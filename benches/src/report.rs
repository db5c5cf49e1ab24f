//! Reports of a run: a table of the targets, and a page with charts.

mod bars;
mod charts;
mod draw;
mod figures;
mod number;
mod page;
mod round_trips;
mod subject;
mod summary;
mod targets;

pub use figures::Figures;
pub use page::{Page, write as write_page};
pub use round_trips::terminal as round_trips;
pub use subject::{ReportSubject, Runner};
pub use summary::terminal as summary;
pub use targets::{Judged, Verdict, judge};

#[cfg(test)]
mod fixture;
