//! The page of a replay.

use super::tables::Table;
use super::{MemoryPage, View};
use crate::columns::{COLUMNS, describe, modelled, values};
use crate::results::{Report, TraceResult};

/// What the columns mean, for readers who did not run the program.
const NOTES: &str = "\
Live: bytes in use, each block rounded up to 256. Reserved: bytes held from the driver; their \
ratio to what is live at most is given where nothing failed. Cold: the \
first replay, on a fresh resource; warm: the later ones. Times are host time for one event. Waits: \
how often a stream was made to wait for another so that memory could change hands.";

/// Renders a replay. The same report gives the same bytes.
pub fn render(report: &Report) -> String {
    MemoryPage::of_replay(report).render()
}

impl MemoryPage {
    /// Of a replay: addresses are those in the resources.
    pub fn of_replay(report: &Report) -> Self {
        let names: Vec<&str> = report.traces.iter().map(|trace| trace.file.as_str()).collect();
        let device =
            if report.software_device { "the software device" } else { report.device.as_str() };
        let mut notices = Vec::new();
        if report.software_device {
            notices.push(
                "There was no GPU in this. The software device is a model of one, on the processor: its times say nothing about a GPU. \
                 Bytes, waits and failures of this library's allocators are those on a GPU."
                    .to_owned(),
            );
        }
        notices.extend(modelled(report));
        let resources = report.traces.iter().flat_map(|trace| &trace.resources);
        // A notice names only the failures that the answers lack.
        let is_answered =
            |view: &View| view.failed > view.replay.map_or(0, |replay| replay.recorded_failures);
        let failures = resources.clone().filter_map(|resource| {
            let failure = resource.first_failure.as_ref()?;
            if resource.view.as_ref().is_some_and(is_answered) {
                return None;
            }
            Some(format!("{}: first failure: {failure}", resource.resource))
        });
        notices.extend(failures);
        let views: Vec<View> = resources.filter_map(|resource| resource.view.clone()).collect();
        let mut tables: Vec<Table> = report.traces.iter().map(table).collect();
        if let Some(last) = tables.last_mut() {
            NOTES.clone_into(&mut last.note);
        }
        Self {
            title: format!("rmm replay: {}", names.join(", ")),
            about: format!("Replayed on {device} by rmm {}.", report.rmm_version),
            notices,
            views,
            tables,
        }
    }
}

fn table(trace: &TraceResult) -> Table {
    Table {
        caption: format!("{}: {}", trace.file, describe(trace)),
        columns: COLUMNS.iter().map(|&column| column.to_owned()).collect(),
        rows: trace.resources.iter().map(|resource| values(resource).to_vec()).collect(),
        note: String::new(),
    }
}
