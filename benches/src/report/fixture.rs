//! A small run for tests.

#![forbid(unsafe_code)]

use super::Figures;

const ROWS: &str = include_str!("../../tests/rows.csv");

pub(super) fn figures() -> Figures {
    Figures::read(ROWS.as_bytes()).unwrap()
}
