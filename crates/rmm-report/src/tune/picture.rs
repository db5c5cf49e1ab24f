//! The pictures: memory against driver calls, and against waits.

use std::fmt::Write as _;

use super::answer::{Point, Tuning};
use super::markup::escape;
use crate::format::{mib, thousands};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// What is drawn upwards.
pub(super) struct Figure {
    pub(super) title: &'static str,
    pub(super) value: fn(&Point) -> Option<u64>,
}

/// A picture as SVG; none if there is nothing to draw.
pub(super) fn svg(tuning: &Tuning, figure: &Figure) -> Option<String> {
    let points = || tuning.configurations.iter().flat_map(|result| &result.curve);
    let memory = Axis::of(points().map(|point| point.memory_bytes), false)?;
    let values = Axis::of(points().filter_map(figure.value), true)?;
    let x = |bytes: u64| LEFT + memory.place(bytes) * (WIDTH - LEFT - RIGHT);
    let y = |value: u64| HEIGHT - BOTTOM - values.place(value) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escape(&format!(
            "{} over memory, by configuration; the table has the figures",
            figure.title
        ))
    );
    for value in values.ticks() {
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{label}\" y=\"{below:.1}\" text-anchor=\"end\">{text}</text>",
            y = y(value),
            right = WIDTH - RIGHT,
            label = LEFT - 6.0,
            below = y(value) + 4.0,
            text = thousands(value)
        );
    }
    for bytes in memory.ticks() {
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>",
            x = x(bytes),
            y = HEIGHT - BOTTOM + 18.0,
            text = mib(bytes).trim_end_matches(".0")
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">memory, MiB</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 6.0
    );
    for (index, result) in tuning.configurations.iter().enumerate() {
        let places: Vec<(f64, f64, &Point, u64)> = result
            .curve
            .iter()
            .filter_map(|point| Some((point, (figure.value)(point)?)))
            .map(|(point, value)| (x(point.memory_bytes), y(value), point, value))
            .collect();
        let path: Vec<String> = places.iter().map(|(x, y, ..)| format!("{x:.1} {y:.1}")).collect();
        let _ = write!(svg, "<g class=\"c{index}\"><path d=\"M{}\"/>", path.join("L"));
        for (x, y, point, value) in places {
            let name = escape(&result.configuration);
            let (memory, value) = (mib(point.memory_bytes), thousands(value));
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{name}: {memory} MiB, {value} {}</title></circle>",
                figure.title.to_lowercase()
            );
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    from: u64,
    to: u64,
    from_zero: bool,
}

impl Axis {
    fn of(values: impl Iterator<Item = u64> + Clone, from_zero: bool) -> Option<Self> {
        let (from, to) = (values.clone().min()?, values.max()?);
        let (low, high) = (scaled(from, from_zero), scaled(to, from_zero));
        Some(Self { low, high, from, to, from_zero })
    }

    /// From 0 to 1.
    fn place(&self, value: u64) -> f64 {
        let width = self.high - self.low;
        if width > 0.0 { (scaled(value, self.from_zero) - self.low) / width } else { 0.5 }
    }

    /// Up to five values, the ends among them.
    fn ticks(&self) -> Vec<u64> {
        let mut ticks = vec![self.from];
        for quarter in 1..4 {
            let place = self.low + (self.high - self.low) * f64::from(quarter) / 4.0;
            let value = if self.from_zero { place.exp() - 1.0 } else { place.exp() };
            ticks.push(rounded(value).clamp(self.from, self.to));
        }
        ticks.push(self.to);
        ticks.dedup();
        ticks
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn scaled(value: u64, from_zero: bool) -> f64 {
    (if from_zero { value as f64 + 1.0 } else { value.max(1) as f64 }).ln()
}

/// Two digits, and zeros.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a tick: it is positive, and casts of floats are cut off at the largest number"
)]
fn rounded(value: f64) -> u64 {
    let digit = 10_f64.powf((value.max(1.0).log10() - 1.0).floor().max(0.0));
    ((value / digit).round() * digit) as u64
}
