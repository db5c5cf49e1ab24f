//! Drawing primitives of the charts: canvas, fonts, colours.

#![forbid(unsafe_code)]

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::subject::{Runner, Subject};

/// The width of every chart.
pub(super) const WIDTH: i32 = 960;
/// Text and axes.
pub(super) const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
/// The height of a line of text.
pub(super) const LINE: i32 = 20;

/// The area that a chart is drawn on, in pixels.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Drawn<T = ()> = Result<T, Box<dyn Error>>;

/// Draws a chart as a file of its own; white, so that it can be read on any page.
pub(super) fn svg(height: i32, draw: impl FnOnce(&Canvas<'_>) -> Drawn) -> Drawn<String> {
    let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        canvas.fill(&WHITE)?;
        draw(&canvas)?;
        canvas.present()?;
    }
    Ok(svg)
}

/// Where a text is, seen from its place.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Left,
    Right,
}

pub(super) fn text(
    canvas: &Canvas<'_>,
    content: &str,
    place: (i32, i32),
    side: Side,
    colour: RGBColor,
) -> Drawn {
    let side = match side {
        Side::Left => HPos::Right,
        Side::Right => HPos::Left,
    };
    let font = ("sans-serif", 15).into_font().color(&colour).pos(Pos::new(side, VPos::Center));
    Ok(canvas.draw(&Text::new(content.to_owned(), place, font))?)
}

/// A title begins above the middle of a line of text.
pub(super) fn title(canvas: &Canvas<'_>, content: &str, place: (i32, i32)) -> Drawn {
    let font = ("sans-serif", 17, FontStyle::Bold).into_font().color(&INK);
    let font = font.pos(Pos::new(HPos::Left, VPos::Center));
    Ok(canvas.draw(&Text::new(content.to_owned(), place, font))?)
}

/// The colour of an allocator, the same in every chart: blue and green are ours. People with any
/// colour vision can distinguish them (after Okabe and Ito).
pub(super) fn colour(subject: &Subject) -> RGBColor {
    match (subject.runner, subject.allocator.as_str()) {
        (Runner::Ours, "pool") => RGBColor(0x00, 0x72, 0xb2),
        (Runner::Ours, "arena") => RGBColor(0x00, 0x9e, 0x73),
        (Runner::Ours, "binning") => RGBColor(0x56, 0xb4, 0xe9),
        (Runner::Ours, _) => RGBColor(0x7f, 0xc9, 0xb0),
        (Runner::Peer, "pool") => RGBColor(0xd5, 0x5e, 0x00),
        (Runner::Peer, "arena") => RGBColor(0xe6, 0x9f, 0x00),
        (Runner::Peer, "binning") => RGBColor(0xcc, 0x79, 0xa7),
        (Runner::Peer, "cuda_async") => RGBColor(0x6a, 0x3d, 0x9a),
        (Runner::Peer, "cub") => RGBColor(0x8c, 0x6d, 0x31),
        (Runner::Peer, "torch") => RGBColor(0x9b, 0x1c, 0x31),
        (Runner::Peer, _) => RGBColor(0x7a, 0x82, 0x8c),
    }
}
