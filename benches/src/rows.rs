//! Result rows: one figure per CSV row, in the format of the peers' runner.

#![forbid(unsafe_code)]

use std::io::Write;

use serde::{Deserialize, Serialize};

/// A figure, and what it is of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The work, such as `pair`.
    pub workload: String,
    /// What served it.
    pub allocator: String,
    /// Which of the workload's figures, such as `size=256` or a trace's name.
    pub params: String,
    /// The figure.
    pub value: f64,
    /// Its unit, such as `ns/pair`.
    pub unit: String,
}

/// Writes rows as they come, after one line of headings, so that a run that is cut short leaves
/// what it has measured.
#[derive(Debug)]
pub struct Writer<W: Write> {
    csv: csv::Writer<W>,
}

impl<W: Write> Writer<W> {
    /// Writes nothing yet.
    pub fn new(to: W) -> Self {
        Self { csv: csv::Writer::from_writer(to) }
    }

    /// Writes one row, rounded to a ten-thousandth.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, row: &Row) -> csv::Result<()> {
        let rounded = Row { value: (row.value * 1e4).round() / 1e4, ..row.clone() };
        self.csv.serialize(rounded)?;
        Ok(self.csv.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_line_of_five_columns() {
        let row = Row {
            workload: "pair".to_owned(),
            allocator: "pool".to_owned(),
            params: "size=256".to_owned(),
            value: 29.123_456,
            unit: "ns/pair".to_owned(),
        };
        let mut text = Vec::new();
        let mut writer = Writer::new(&mut text);
        writer.write(&row).unwrap();
        writer.write(&Row { value: 30.0, ..row }).unwrap();
        drop(writer);
        let expected = "workload,allocator,params,value,unit\npair,pool,size=256,29.1235,ns/pair\n\
                        pair,pool,size=256,30.0,ns/pair\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
