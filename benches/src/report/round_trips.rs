//! The table of round trips: containers beside raw driver calls.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use comfy_table::{Table, TableStyle, presets};

use super::number::short;
use super::table::of_figures;
use crate::round_trip::{Allocation, Figure};

/// The rows of `round-trip` in the folder of a run.
pub(super) const FILE: &str = "round-trip.csv";

/// What the containers may take for one of the raw calls.
const BOUND: f64 = 1.01;

const COLUMNS: [&str; 8] =
    ["size", "allocated", "trips", "typed, us", "raw, us", "ratio", "calls", "raw calls"];

/// A table as text, and how many figures are within the bound.
pub fn terminal(figures: &[Figure]) -> String {
    let table = table(figures, presets::ASCII_BORDERS_ONLY_CONDENSED);
    format!("{table}\n{}\n", within_bound(figures))
}

/// A section of a page; nothing if no trips were timed.
///
/// # Errors
/// If there are rows and they cannot be read.
pub(super) fn markdown(results: &Path) -> Result<String, Box<dyn Error>> {
    let figures = match fs::read_to_string(results.join(FILE)) {
        Ok(text) => read(&text).map_err(|error| format!("{FILE}: {error}"))?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(format!("{FILE}: {error}").into()),
    };
    Ok(format!(
        "\n## The containers beside raw calls\n\nMicroseconds of an upload, a kernel and a download, by the containers and by the driver's own calls, in turns. \
         [How they are timed](../../benches/README.md#the-containers-beside-raw-calls). {}.\n\n{}\n",
        within_bound(&figures),
        table(&figures, presets::ASCII_MARKDOWN)
    ))
}

fn read(text: &str) -> Result<Vec<Figure>, csv::Error> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().collect()
}

fn within_bound(figures: &[Figure]) -> String {
    let within = figures.iter().filter(|figure| figure.ratio <= BOUND).count();
    format!("{within} of {} take at most {BOUND} times as long as raw calls", figures.len())
}

fn table(figures: &[Figure], style: TableStyle) -> Table {
    let mut table = of_figures(style, COLUMNS, 2);
    for figure in figures {
        let allocated = match figure.allocation {
            Allocation::Once => "once",
            Allocation::EachTrip => "each trip",
        };
        table.add_row([
            rmm_core::format_bytes(figure.bytes as u64),
            allocated.to_owned(),
            figure.trips.to_string(),
            short(figure.typed_ns / 1e3),
            short(figure.raw_ns / 1e3),
            format!("{:.4}", figure.ratio),
            figure.typed_calls.to_string(),
            figure.raw_calls.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "bytes,allocation,trips,typed_ns,raw_ns,ratio,typed_calls,raw_calls\n\
        4096,once,10000,15300,15200,1.0066,16,4\n\
        1048576,each-trip,3072,61000,60000,1.0167,19,6\n";

    #[test]
    fn a_page_says_how_many_trips_are_as_fast_as_raw_calls() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), ROWS).unwrap();
        let text = markdown(dir.path()).unwrap();
        assert!(text.contains("1 of 2 take at most 1.01 times"), "{text}");
        let row = text.lines().find(|line| line.contains("1.0 MiB")).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(
            cells[1..9],
            ["1.0 MiB", "each trip", "3072", "61.0", "60.0", "1.0167", "19", "6"]
        );
    }

    #[test]
    fn a_run_without_trips_has_no_section_and_broken_rows_are_told() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(markdown(dir.path()).unwrap(), "");
        fs::write(dir.path().join(FILE), ROWS.replace("once", "never")).unwrap();
        assert!(markdown(dir.path()).unwrap_err().to_string().starts_with(FILE));
    }
}
