//! The figures of a run: medians over its passes.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;

use serde::Deserialize;

use super::subject::{ReportSubject, Runner};

/// A row of `rows.csv`.
#[derive(Deserialize)]
struct MarkedRow {
    runner: Runner,
    #[serde(rename = "pass")]
    _pass: u32,
    workload: String,
    allocator: String,
    params: String,
    value: f64,
    unit: String,
}

/// What a figure is of: a workload and which of its figures.
pub(super) type Work = (String, String);

/// The figures of a run: of each allocator and each work, the median over the passes.
#[derive(Debug, Default)]
pub struct Figures {
    values: BTreeMap<Work, BTreeMap<ReportSubject, Vec<f64>>>,
    units: BTreeMap<Work, String>,
    /// The works in the order in which they were measured.
    order: Vec<Work>,
}

impl Figures {
    /// Reads `rows.csv`: `runner,pass,workload,allocator,params,value,unit`.
    ///
    /// # Errors
    /// If it is no such file, or has no rows.
    pub fn read(rows: impl Read) -> Result<Self, Box<dyn Error>> {
        let mut figures = Self::default();
        for row in csv::Reader::from_reader(rows).deserialize() {
            let MarkedRow { runner, _pass, workload, allocator, params, value, unit } = row?;
            let work = (workload, params);
            if !figures.units.contains_key(&work) {
                figures.order.push(work.clone());
                figures.units.insert(work.clone(), unit);
            }
            let of_work = figures.values.entry(work).or_default();
            of_work.entry(ReportSubject { runner, allocator }).or_default().push(value);
        }
        if figures.order.is_empty() {
            return Err("there are no rows".into());
        }
        Ok(figures)
    }

    /// The works in the order in which they were measured, with their units.
    pub(super) fn works(&self) -> impl Iterator<Item = (&Work, &str)> {
        self.order.iter().map(|work| (work, self.unit(work)))
    }

    pub(super) fn unit(&self, work: &Work) -> &str {
        self.units.get(work).map_or("", String::as_str)
    }

    /// Every allocator that was measured, ours first.
    pub(super) fn subjects(&self) -> Vec<&ReportSubject> {
        let mut subjects: Vec<&ReportSubject> =
            self.values.values().flat_map(BTreeMap::keys).collect();
        subjects.sort();
        subjects.dedup();
        subjects
    }

    /// An allocator's figure.
    pub fn value(&self, subject: &ReportSubject, workload: &str, params: &str) -> Option<f64> {
        let of_work = self.values.get(&(workload.to_owned(), params.to_owned()))?;
        of_work.get(subject).map(|values| median(values))
    }
}

/// Throughput; times and ratios are better the lower they are.
pub(super) fn higher_is_better(unit: &str) -> bool {
    unit == "Mops/s"
}

/// The middle value, or the mean of the two in the middle; the list is not empty.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn passes_are_taken_together() {
        let figures = fixture::figures();
        let pool = ReportSubject::ours("pool");
        assert_eq!(figures.value(&pool, "pair", "size=4096"), Some(20.0), "of 19 and 21");
        assert_eq!(figures.value(&pool, "pair", "size=1"), None);
        assert!((median(&[9.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn text_that_is_no_run_is_refused() {
        assert!(Figures::read("".as_bytes()).is_err());
        let header = "runner,pass,workload,allocator,params,value,unit\n";
        assert!(Figures::read(header.as_bytes()).is_err(), "nothing was measured");
        let unmarked = "workload,allocator,params,value,unit\npair,pool,size=256,1,ns/pair\n";
        assert!(Figures::read(unmarked.as_bytes()).is_err());
    }
}
