//! Bar charts: one panel per figure, the best allocator first.

#![forbid(unsafe_code)]

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use rmm_report::draw::{Canvas, Drawn, font, svg, text};

use super::draw::{colour, title};
use super::figures::{Figures, higher_is_better};
use super::number::short;
use super::subject::{ReportSubject, Runner};

/// One figure, of every allocator.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) workload: &'static str,
    pub(super) params: String,
}

/// The width of every chart.
const WIDTH: i32 = 960;
/// The height of a line of text.
const LINE: i32 = 20;
const COLUMNS: usize = 2;
/// Where bars begin: names are before.
const NAMES: i32 = 140;
/// What is left for the value behind the longest bar.
const VALUES: i32 = 70;
const MARGIN: i32 = 16;

/// Bars that are this many times the middle one are cut, so that the others can be seen.
const CUT_AT: f64 = 4.0;

/// Draws those panels for which something was measured; nothing if there are none.
pub(super) fn draw(figures: &Figures, panels: &[Panel]) -> Drawn<Option<String>> {
    let panels: Vec<(&Panel, Vec<(&ReportSubject, f64)>)> = panels
        .iter()
        .map(|panel| (panel, bars(figures, panel)))
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    let Some(most) = panels.iter().map(|(_, bars)| bars.len()).max() else { return Ok(None) };
    let panel_height = LINE * (pixels(most)? + 2);
    let rows = panels.len().div_ceil(COLUMNS);
    let column_width = (WIDTH - MARGIN) / pixels(COLUMNS)?;
    let height = panel_height * pixels(rows)? + MARGIN;
    let drawn = svg((WIDTH, height), |canvas| {
        // So that it can be read on any page.
        canvas.fill(&WHITE)?;
        for (place, (panel, bars)) in panels.iter().enumerate() {
            let left = MARGIN + pixels(place % COLUMNS)? * column_width;
            let top = MARGIN + pixels(place / COLUMNS)? * panel_height;
            title(canvas, &panel.title, (left, top + 4))?;
            draw_bars(canvas, bars, (left, top + LINE + 6), column_width - MARGIN)?;
        }
        Ok(())
    })?;
    Ok(Some(drawn))
}

/// The bars of a panel, the best first.
fn bars<'a>(figures: &'a Figures, panel: &Panel) -> Vec<(&'a ReportSubject, f64)> {
    let mut bars = figures.values(panel.workload, &panel.params);
    bars.retain(|(subject, _)| !subject.is_the_driver());
    bars.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let work = (panel.workload.to_owned(), panel.params.clone());
    if higher_is_better(figures.unit(&work)) {
        bars.reverse();
    }
    bars
}

fn draw_bars(
    canvas: &Canvas<'_>,
    bars: &[(&ReportSubject, f64)],
    (left, top): (i32, i32),
    width: i32,
) -> Drawn {
    let longest = full_length(bars);
    let room = width - NAMES - VALUES;
    for (line, &(subject, value)) in bars.iter().enumerate() {
        let middle = top + LINE * pixels(line)? + LINE / 2;
        let start = left + NAMES;
        let end = start + length(value / longest, room);
        text(canvas, subject.label(), (start - 6, middle), HPos::Right, &font(15))?;
        let colour = colour(subject);
        let style = if subject.runner == Runner::Ours {
            colour.filled()
        } else {
            colour.mix(0.75).filled()
        };
        let corners = [(start, middle - 7), (end, middle + 7)];
        canvas.draw(&Rectangle::new(corners, style))?;
        if value > longest {
            // A gap near the end says that the bar goes on.
            let gap = [(end - 14, middle + 8), (end - 8, middle - 8)];
            canvas.draw(&PathElement::new(gap.to_vec(), WHITE.stroke_width(4)))?;
        }
        text(canvas, short(value), (end + 5, middle), HPos::Left, &font(15))?;
    }
    Ok(())
}

/// The value of the longest bar that is drawn in full.
fn full_length(sorted: &[(&ReportSubject, f64)]) -> f64 {
    let middle = sorted.get(sorted.len() / 2).map_or(1.0, |(_, value)| *value);
    let whole = sorted.iter().map(|(_, value)| *value).filter(|value| *value <= CUT_AT * middle);
    whole.fold(f64::MIN_POSITIVE, f64::max)
}

#[expect(clippy::cast_possible_truncation, reason = "a share of a few hundred pixels")]
fn length(share: f64, room: i32) -> i32 {
    (share.clamp(0.0, 1.0) * f64::from(room)).round() as i32
}

fn pixels(count: usize) -> Drawn<i32> {
    Ok(i32::try_from(count)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn panel(workload: &'static str, params: &str) -> Panel {
        Panel { title: format!("of {workload}"), workload, params: params.to_owned() }
    }

    #[test]
    fn every_allocator_but_the_driver_has_a_bar() {
        let figures = fixture::figures();
        let panels = [panel("pair", "size=4096"), panel("pair", "size=3")];
        let svg = draw(&figures, &panels).unwrap().unwrap();
        assert_eq!(svg.matches("of pair").count(), 1, "nothing was measured for the second");
        for label in ["pool (ours)", "RMM pool", "RMM arena", "PyTorch", "20.0", "472"] {
            assert!(svg.contains(label), "{label} is not in it");
        }
        assert!(!svg.contains("cuda (ours)"));
        assert!(draw(&figures, &panels[1..]).unwrap().is_none());
    }

    #[test]
    fn the_best_allocator_comes_first() {
        let figures = fixture::figures();
        let first = |panel: &Panel| bars(&figures, panel)[0].0.label();
        assert_eq!(first(&panel("pair", "size=4096")), "pool (ours)");
        assert_eq!(first(&panel("threads", "T=16")), "pool (ours)", "more is better there");
    }

    #[test]
    fn one_slow_allocator_does_not_hide_the_others() {
        let subject = ReportSubject::peer("x");
        let bars =
            |values: &[f64]| values.iter().map(|&value| (&subject, value)).collect::<Vec<_>>();
        let longest = |values: &[f64]| full_length(&bars(values)).round();
        assert!((longest(&[50.0, 200.0, 400.0]) - 400.0).abs() < 1.0);
        assert!((longest(&[50.0, 200.0, 9000.0]) - 200.0).abs() < 1.0);
    }
}
