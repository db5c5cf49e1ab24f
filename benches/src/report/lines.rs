//! Charts of lines on two logarithmic axes.

#![forbid(unsafe_code)]

use plotters::prelude::*;

use super::draw::{Canvas, Drawn, GRID, INK, LINE, Side, WIDTH, colour, svg, text, title};
use super::figures::Figures;
use super::number::tick;
use super::subject::{Runner, Subject};

const HEIGHT: i32 = 420;
const LEFT: i32 = 70;
const RIGHT: i32 = 150;
const TOP: i32 = 40;
const BOTTOM: i32 = 50;

/// How a workload's figures become lines.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) workload: &'static str,
    /// The figures' names without the number: `H=`.
    pub(super) prefix: &'static str,
    pub(super) points: &'static [u32],
    pub(super) x_title: &'static str,
    pub(super) y_title: &'static str,
}

struct Line<'a> {
    subject: &'a Subject,
    points: Vec<(f64, f64)>,
}

/// Draws the lines; nothing if no allocator has two points.
pub(super) fn draw(figures: &Figures, chart: &Chart) -> Drawn<Option<String>> {
    let lines = lines(figures, chart);
    if lines.is_empty() {
        return Ok(None);
    }
    let xs: Vec<f64> = chart.points.iter().map(|&point| place(point)).collect();
    let ys = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let x = Scale::over(xs.iter().copied(), LEFT, WIDTH - RIGHT);
    let y = Scale::around(ys, HEIGHT - BOTTOM, TOP);
    let drawn = svg(HEIGHT, |canvas| {
        title(canvas, chart.title, (LEFT, TOP / 2))?;
        for value in y.ticks() {
            let at = y.pixel(value);
            canvas.draw(&PathElement::new([(LEFT, at), (WIDTH - RIGHT, at)], GRID))?;
            text(canvas, &tick(value), (LEFT - 6, at), Side::Left, INK)?;
        }
        for (&point, &value) in chart.points.iter().zip(&xs) {
            let at = x.pixel(value);
            canvas.draw(&PathElement::new([(at, TOP), (at, HEIGHT - BOTTOM)], GRID))?;
            text(canvas, &tick(f64::from(point)), (at, HEIGHT - BOTTOM + 14), Side::Middle, INK)?;
        }
        let middle = LEFT.midpoint(WIDTH - RIGHT);
        text(canvas, chart.x_title, (middle, HEIGHT - BOTTOM + 34), Side::Middle, INK)?;
        text(canvas, chart.y_title, (WIDTH - RIGHT, TOP / 2), Side::Left, INK)?;
        draw_lines(canvas, &lines, &x, &y)
    })?;
    Ok(Some(drawn))
}

fn lines<'a>(figures: &'a Figures, chart: &Chart) -> Vec<Line<'a>> {
    let line = |subject: &'a Subject| {
        let point = |&point: &u32| {
            let params = format!("{}{point}", chart.prefix);
            Some((place(point), figures.value(subject, chart.workload, &params)?))
        };
        Line { subject, points: chart.points.iter().filter_map(point).collect() }
    };
    let subjects = figures.subjects().into_iter().filter(|subject| !subject.is_the_driver());
    subjects.map(line).filter(|line| line.points.len() > 1).collect()
}

/// Each line, with its name at its end.
fn draw_lines(canvas: &Canvas<'_>, lines: &[Line<'_>], x: &Scale, y: &Scale) -> Drawn {
    let mut names = Vec::new();
    // Ours are drawn last, over the others.
    for line in lines.iter().rev() {
        let colour = colour(line.subject);
        let width = if line.subject.runner == Runner::Ours { 4 } else { 2 };
        let points: Vec<(i32, i32)> =
            line.points.iter().map(|&(across, up)| (x.pixel(across), y.pixel(up))).collect();
        canvas.draw(&PathElement::new(points.clone(), colour.stroke_width(width)))?;
        for &point in &points {
            canvas.draw(&Circle::new(point, 4, colour.filled()))?;
        }
        names.extend(points.last().map(|last| (last.1, line.subject)));
    }
    names.sort_by_key(|(at, _)| *at);
    let heights = apart(names.iter().map(|(at, _)| *at));
    for ((_, subject), at) in names.iter().zip(heights) {
        text(canvas, &subject.label(), (WIDTH - RIGHT + 10, at), Side::Right, colour(subject))?;
    }
    Ok(())
}

/// Moves names that would cover each other: they come from above in order, and stay within the
/// chart.
fn apart(heights: impl DoubleEndedIterator<Item = i32> + ExactSizeIterator) -> Vec<i32> {
    let mut apart: Vec<i32> = Vec::with_capacity(heights.len());
    for height in heights {
        let least = apart.last().map_or(TOP, |last| last + LINE - 2);
        apart.push(height.max(least));
    }
    let mut most = HEIGHT - BOTTOM;
    for height in apart.iter_mut().rev() {
        *height = (*height).min(most);
        most = *height - LINE + 2;
    }
    apart
}

/// Nothing has no place on a logarithmic axis: it stands where one does.
fn place(point: u32) -> f64 {
    f64::from(point.max(1))
}

/// A logarithmic axis.
struct Scale {
    low: f64,
    high: f64,
    from: i32,
    to: i32,
}

impl Scale {
    /// From the lowest value to the highest.
    fn over(values: impl Iterator<Item = f64>, from: i32, to: i32) -> Self {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        // A range of no length has no scale.
        let high = if high > low { high } else { low * 2.0 };
        Self { low, high, from, to }
    }

    /// From the last tick below all values to the first above them.
    fn around(values: impl Iterator<Item = f64>, from: i32, to: i32) -> Self {
        let Self { low, high, .. } = Self::over(values, from, to);
        let below = all_ticks().filter(|tick| *tick <= low).last();
        let above = all_ticks().find(|tick| *tick >= high);
        Self { low: below.unwrap_or(low), high: above.unwrap_or(high), from, to }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a few hundred pixels")]
    fn pixel(&self, value: f64) -> i32 {
        let share = (value.max(self.low) / self.low).ln() / (self.high / self.low).ln();
        self.from + (share * f64::from(self.to - self.from)).round() as i32
    }

    /// Powers of ten, and twos and fives between if there are few.
    fn ticks(&self) -> Vec<f64> {
        let all = all_ticks().filter(|value| (self.low..=self.high).contains(value));
        let is_long = self.high / self.low > 300.0;
        all.filter(|value| !is_long || value.log10().fract().abs() < 1e-6).collect()
    }
}

/// Ones, twos and fives, from the smallest.
fn all_ticks() -> impl Iterator<Item = f64> {
    let powers = (-6..9).map(|power| 10_f64.powi(power));
    powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| rounded(step * power)))
}

/// Without what a product of powers of ten adds in the last digit.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    const HOLES: Chart = Chart {
        title: "holes",
        workload: "holes",
        prefix: "H=",
        points: &[0, 100, 10_000],
        x_title: "free blocks",
        y_title: "ns",
    };

    #[test]
    fn every_allocator_with_two_points_has_a_line_and_a_name() {
        let svg = draw(&fixture::figures(), &HOLES).unwrap().unwrap();
        for label in ["pool (ours)", "RMM pool", "PyTorch", "10,000"] {
            assert!(svg.contains(label), "{label} is not in it");
        }
        assert!(!svg.contains("RMM arena"), "it has no such figures");
        assert!(!svg.contains("NaN"));
        let chart = Chart { workload: "other", ..HOLES };
        assert!(draw(&fixture::figures(), &chart).unwrap().is_none());
    }

    #[test]
    fn an_axis_has_ticks_within_and_ends_at_its_ends() {
        let scale = Scale::around([0.6, 90.0].into_iter(), 0, 100);
        assert_eq!((scale.pixel(0.5), scale.pixel(100.0)), (0, 100), "ticks around the values");
        assert_eq!(scale.ticks(), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        let wide = Scale::around([0.5, 37_115.0].into_iter(), 0, 100);
        assert_eq!(wide.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        let flat = Scale::around([58.0, 58.5].into_iter(), 0, 100);
        assert_eq!(flat.ticks(), [50.0, 100.0], "noise does not fill the chart");
        let threads = Scale::over([1.0, 16.0].into_iter(), 0, 100);
        assert_eq!((threads.pixel(4.0), threads.pixel(16.0)), (50, 100));
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let bottom = HEIGHT - BOTTOM;
        for crowded in [[100, 101, 102], [TOP, TOP, TOP + 1], [bottom - 1, bottom, bottom]] {
            let heights = apart(crowded.into_iter());
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 2), "{heights:?}");
            assert!(heights.iter().all(|height| (TOP..=bottom).contains(height)), "{heights:?}");
        }
    }
}
