//! Fonts and colours of the charts.

#![forbid(unsafe_code)]

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use rmm_report::draw::{Canvas, Drawn, INK, PALETTE, text};

use super::subject::{ReportSubject, Runner};

/// A title begins above the middle of a line of text.
pub(super) fn title(canvas: &Canvas<'_>, content: &str, place: (i32, i32)) -> Drawn {
    let font = ("sans-serif", 17, FontStyle::Bold).into_font().color(&INK);
    text(canvas, content, place, HPos::Left, &font)
}

/// The colour of an allocator, the same in every chart: blue and green are ours.
pub(super) fn colour(subject: &ReportSubject) -> RGBColor {
    match (subject.runner, subject.allocator.as_str()) {
        (Runner::Ours, "pool") => PALETTE[0],
        (Runner::Ours, "arena") => PALETTE[2],
        (Runner::Ours, "binning") => PALETTE[4],
        (Runner::Ours, _) => RGBColor(0x7f, 0xc9, 0xb0),
        (Runner::Peer, "pool") => PALETTE[5],
        (Runner::Peer, "arena") => PALETTE[1],
        (Runner::Peer, "binning") => PALETTE[3],
        (Runner::Peer, "cuda_async") => PALETTE[6],
        (Runner::Peer, "cub") => PALETTE[7],
        (Runner::Peer, "torch") => RGBColor(0x9b, 0x1c, 0x31),
        (Runner::Peer, _) => RGBColor(0x7a, 0x82, 0x8c),
    }
}
