//! The chart of live and reserved bytes over the events.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::downsample::{MAX_POINTS, downsample};
use super::draw::{GRID, LIVE, RESERVED, Unit, css, float, svg};
use super::figure::{Figure, legend};
use crate::draw::{Canvas, Drawn, INK, font};
use crate::format::{self, bytes, thousands};
use crate::results::{ResourceResult, Sample};

const HEIGHT: i32 = 380;
/// Space above the highest point, for the label of the peak.
const HEADROOM: f64 = 1.15;

/// The chart, where there is a timeline.
pub(super) fn figure(resource: &ResourceResult) -> Option<Figure> {
    let peak = peak(&resource.timeline)?;
    let samples = downsample(&resource.timeline);
    let reserved = samples.iter().map(|sample| sample.reserved_bytes).max().unwrap_or_default();
    let label = format!(
        "Chart of {}: live memory peaks at {}, reserved memory at {}",
        resource.resource,
        bytes(peak.live_bytes),
        bytes(reserved)
    );
    Some(Figure {
        legend: legend([
            ("line", css(RESERVED), format!("reserved, at most {}", bytes(reserved))),
            ("", css(LIVE), format!("live, at most {}", bytes(peak.live_bytes))),
        ]),
        svg: svg(HEIGHT, &label, |canvas| draw(canvas, &samples, peak)),
        caption: caption(&resource.timeline, peak),
    })
}

fn caption(timeline: &[Sample], peak: Sample) -> String {
    let mut text = format!(
        "Bytes in use by the program (area) and bytes held by the resource (line) after each event. Most is in use after \
         event {}: {} live of {} reserved. What lies between the two is cached or fragmented.",
        thousands(peak.event),
        bytes(peak.live_bytes),
        bytes(peak.reserved_bytes),
    );
    if timeline.len() > MAX_POINTS {
        text.push_str(" The curves go through the highest points of short stretches of events; dips within a stretch are \
                       not shown.");
    }
    text
}

/// The first sample with the most live bytes.
fn peak(samples: &[Sample]) -> Option<Sample> {
    // `max_by_key` takes the last of equals, hence from behind.
    samples.iter().rev().max_by_key(|sample| sample.live_bytes).copied()
}

fn draw(canvas: &Canvas<'_>, samples: &[Sample], peak: Sample) -> Drawn {
    let top = samples
        .iter()
        .map(|sample| sample.live_bytes.max(sample.reserved_bytes))
        .max()
        .unwrap_or_default();
    let unit = Unit::for_axis_up_to(top);
    let first = samples.first().map_or(0.0, |sample| float(sample.event));
    let last = samples.last().map_or(0.0, |sample| float(sample.event));
    // A range of no length has no scale.
    let (width, height) = ((last - first).max(1.0), unit.of(top.max(1)) * HEADROOM);
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(8)
        .margin_right(24)
        .set_label_area_size(LabelAreaPosition::Left, 84)
        .set_label_area_size(LabelAreaPosition::Bottom, 52)
        .build_cartesian_2d(first..first + width, 0.0..height)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(font(18))
        .axis_desc_style(font(18))
        .x_labels(10)
        .y_labels(6)
        .x_desc("event")
        .y_desc(unit.name)
        .x_label_formatter(&|event| format::float(*event, 0))
        .y_label_formatter(&|size| format::float(*size, usize::from(height < 10.0)))
        .draw()?;
    let live = steps(samples, |sample| unit.of(sample.live_bytes));
    let reserved = steps(samples, |sample| unit.of(sample.reserved_bytes));
    chart.draw_series(
        AreaSeries::new(live, 0.0, LIVE.mix(0.25)).border_style(LIVE.stroke_width(1)),
    )?;
    chart.draw_series(LineSeries::new(reserved, RESERVED.stroke_width(2)))?;

    let at = float(peak.event);
    let (side, gap) = if at - first > width / 2.0 { (HPos::Right, -6) } else { (HPos::Left, 6) };
    let label = format!("peak: {} live", bytes(peak.live_bytes));
    chart.draw_series([PathElement::new([(at, 0.0), (at, height)], INK.mix(0.5))])?;
    chart.draw_series([EmptyElement::at((at, height))
        + Text::new(label, (gap, 4), font(18).pos(Pos::new(side, VPos::Top)))])?;
    chart.draw_series([Circle::new((at, unit.of(peak.live_bytes)), 4, LIVE.filled())])?;
    Ok(())
}

/// The corners of a curve that stays where it is until the next sample.
fn steps(samples: &[Sample], height: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(samples.len() * 2);
    for sample in samples {
        let point = (float(sample.event), height(sample));
        corners.extend(corners.last().map(|&(_, before)| (point.0, before)));
        corners.push(point);
    }
    corners
}
