//! Drawing primitives of charts: canvas, text, colours.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Text, axes and captions.
pub(crate) const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);

/// Colours that people with any colour vision can distinguish (Okabe and Ito's, without the yellow
/// that vanishes on white), then two more.
pub(crate) const PALETTE: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x6a, 0x3d, 0x9a),
    RGBColor(0x8c, 0x6d, 0x31),
];

/// The area that a chart is drawn on, in pixels.
pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Drawing into a string does not fail, but plotters' signatures say that it may.
pub(crate) type Drawn<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Draws a chart of this width and height as SVG.
///
/// # Errors
/// Those of `draw`.
pub(crate) fn svg(size: (i32, i32), draw: impl FnOnce(&Canvas<'_>) -> Drawn) -> Drawn<String> {
    let mut svg = String::new();
    {
        let size = (size.0.unsigned_abs(), size.1.unsigned_abs());
        let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&canvas)?;
        canvas.present()?;
    }
    Ok(svg)
}

/// A font of this size, which is the line height, as plotters has it.
pub(crate) fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Draws a line of text whose middle is at the height of `place`, and this side of it at `place`.
///
/// # Errors
/// If it cannot be drawn.
pub(crate) fn text(
    canvas: &Canvas<'_>,
    content: impl Into<String>,
    place: (i32, i32),
    side: HPos,
    style: &TextStyle<'_>,
) -> Drawn {
    let style = style.clone().pos(Pos::new(side, VPos::Center));
    Ok(canvas.draw(&Text::new(content.into(), place, style))?)
}
