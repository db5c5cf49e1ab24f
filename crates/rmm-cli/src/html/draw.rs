//! Drawing primitives of the charts: canvas, units, colours.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::escape::escape;
use crate::format::{GIB, MIB};

/// The width of every picture, in its own units. The page scales it.
pub(super) const WIDTH: i32 = 1200;

/// Text, axes and captions.
pub(super) const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
/// Live bytes.
pub(super) const LIVE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
/// Reserved bytes.
pub(super) const RESERVED: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
/// Free memory of a heap map, and its edge.
pub(super) const FREE: RGBColor = RGBColor(0xee, 0xf0, 0xf3);
pub(super) const FREE_EDGE: RGBColor = RGBColor(0x8f, 0x97, 0xa3);

/// Colours that people with any colour vision can distinguish (Okabe and Ito's, without the yellow
/// that vanishes on white), then two more.
const STREAMS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x6a, 0x3d, 0x9a),
    RGBColor(0x8c, 0x6d, 0x31),
];

/// How many streams have a colour of their own.
pub(super) const STREAM_COLOURS: usize = STREAMS.len();

/// The colour of a stream; after [`STREAM_COLOURS`] they repeat.
pub(super) fn stream_colour(stream: u32) -> RGBColor {
    STREAMS[stream as usize % STREAMS.len()]
}

/// `#rrggbb`.
pub(super) fn css(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// The area that a picture is drawn on.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Drawing into a string does not fail, but plotters' signatures say that it may.
pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws a picture as SVG to put into a page: it takes the width it is given, and `label` describes
/// it to screen readers.
pub(super) fn svg(height: i32, label: &str, draw: impl FnOnce(&Canvas<'_>) -> Drawn) -> String {
    let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
    let mut svg = String::new();
    let drawn = {
        let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&canvas).and_then(|()| Ok(canvas.present()?))
    };
    if let Err(error) = drawn {
        return format!(
            "<p class=\"notice\">This could not be drawn: {}</p>\n",
            escape(&error.to_string())
        );
    }
    // With a width and a height of its own it would not scale.
    let fixed = format!("<svg width=\"{}\" height=\"{}\" ", size.0, size.1);
    svg.replacen(&fixed, &format!("<svg role=\"img\" aria-label=\"{}\" ", escape(label)), 1)
}

/// A font of the page at a size; `size` is the line height, as plotters has it.
pub(super) fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
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
