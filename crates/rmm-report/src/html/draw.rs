//! The parts of charts that depend on the page: colours, units, size.

use plotters::prelude::*;

use super::escape::escape;
use crate::draw::{self, Canvas, Drawn, PALETTE};
use crate::format::{GIB, MIB};

/// The width of every picture, in its own units. The page scales it.
pub(super) const WIDTH: i32 = 1200;

/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
/// Live bytes.
pub(super) const LIVE: RGBColor = PALETTE[0];
/// Reserved bytes.
pub(super) const RESERVED: RGBColor = PALETTE[5];
/// Free memory of a heap map, and its edge.
pub(super) const FREE: RGBColor = RGBColor(0xee, 0xf0, 0xf3);
pub(super) const FREE_EDGE: RGBColor = RGBColor(0x8f, 0x97, 0xa3);

/// The colour of a stream; they repeat.
pub(super) fn stream_colour(stream: u32) -> RGBColor {
    PALETTE[stream as usize % PALETTE.len()]
}

/// `#rrggbb`.
pub(super) fn css(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Draws a picture as SVG to put into a page: it takes the width it is given, and `label` describes
/// it to screen readers.
pub(super) fn svg(height: i32, label: &str, draw: impl FnOnce(&Canvas<'_>) -> Drawn) -> String {
    match draw::svg((WIDTH, height), draw) {
        // With a width and a height of its own it would not scale.
        Ok(svg) => svg.replacen(
            &format!("<svg width=\"{WIDTH}\" height=\"{height}\" "),
            &format!("<svg role=\"img\" aria-label=\"{}\" ", escape(label)),
            1,
        ),
        Err(error) => {
            let error = escape(&error.to_string());
            format!("<p class=\"notice\">This could not be drawn: {error}</p>\n")
        }
    }
}

/// For coordinates, where a rounding error in the 16th digit is far less than a pixel.
#[expect(clippy::cast_precision_loss, reason = "only for pictures")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

/// A unit for an axis.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    bytes: u64,
}

impl Unit {
    /// The unit in which a number up to this one has one to four digits before the point.
    pub(super) fn for_axis_up_to(bytes: u64) -> Self {
        let (name, unit) = match bytes {
            0..2048 => ("bytes", 1),
            2048..0x20_0000 => ("KiB", 1024),
            0x20_0000..0x8000_0000 => ("MiB", MIB),
            _ => ("GiB", GIB),
        };
        Self { name, bytes: unit }
    }

    pub(super) fn of(self, bytes: u64) -> f64 {
        float(bytes) / float(self.bytes)
    }
}
