//! The header of a log: which column is where.

use super::error::Reason;
use super::fields::Fields;

/// The columns that a log must have, as RMM names them.
const REQUIRED: [&str; 6] = ["Thread", "Time", "Action", "Pointer", "Size", "Stream"];

/// The columns that are read; the first six are the required ones.
pub(super) const NAMES: [&str; 9] =
    ["Thread", "Time", "Action", "Pointer", "Size", "Stream", "Tag", "Site", "Device"];

/// The header of a log, parsed: the meaning of each column.
#[derive(Debug)]
pub(super) struct Header {
    /// For each column of the log its place in [`NAMES`]; none for columns that are not known.
    pub(super) places: Vec<Option<usize>>,
}

impl Header {
    /// Reads the columns by name, in any order.
    pub(super) fn parse(line: &str) -> Result<Self, Reason> {
        let mut places = Vec::new();
        for field in Fields::new(line) {
            let field = field?;
            let place = NAMES.iter().position(|&name| name == field);
            if let Some(place) = place.filter(|_| places.contains(&place)) {
                return Err(Reason::SameColumn { name: NAMES[place] });
            }
            places.push(place);
        }
        let is_there = |place| places.contains(&Some(place));
        if (0..REQUIRED.len()).all(is_there) {
            return Ok(Self { places });
        }
        Err(Reason::Header { found: line.to_owned() })
    }

    /// How many fields a row has.
    pub(super) fn fields(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let header =
            Header::parse("Site,Thread,More,Action,Time,\"Pointer\",Stream,Size").expect("all");
        let expected = [Some(7), Some(0), None, Some(2), Some(1), Some(3), Some(5), Some(4)];
        assert_eq!(header.places, expected);
    }

    #[test]
    fn a_known_column_may_be_there_once() {
        let line = |more: &str| format!("Thread,Time,Action,Pointer,Size,Stream,{more}");
        assert!(Header::parse(&line("x,x,")).is_ok());
        let error = Header::parse(&line("Tag,Tag")).expect_err("twice").to_string();
        assert_eq!(error, "the header has the column Tag twice");
    }
}
