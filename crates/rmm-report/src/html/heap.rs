//! The heap map: live and free ranges by address, at the peak of the live bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::draw::{FREE, FREE_EDGE, WIDTH, css, stream_colour, svg};
use super::figure::{Figure, legend};
use super::layout::{Layout, Row, Span, layout};
use crate::draw::{Canvas, Drawn, PALETTE, font, text};
use crate::format::{bytes, count};
use crate::results::{BlockState, HeapBlock};

/// Where strips start: the labels are to the left.
const LEFT: i32 = 150;
/// The length of a whole row.
const ROW_WIDTH: i32 = WIDTH - LEFT - 16;
const ROW_HEIGHT: i32 = 16;
/// From one row to the next of the same segment, and to the next segment.
const ROW_STEP: i32 = ROW_HEIGHT + 3;
const SEGMENT_GAP: i32 = 8;
const TOP: i32 = 8;
/// How many streams the legend names.
const NAMED_STREAMS: usize = 12;

/// When blocks were where they are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// In a replay, when most was live. It knows the stream of every block.
    Peak,
    /// Now. A pool does not keep the streams of live blocks.
    Now,
}

/// The map, where there is one.
pub(super) fn figure(resource: &str, blocks: &[HeapBlock], moment: Moment) -> Option<Figure> {
    let layout = layout(blocks, u64::from(ROW_WIDTH.unsigned_abs()));
    let tops = tops(&layout.rows);
    let height = tops.last()? + ROW_STEP + TOP;
    let usage = Usage::of(blocks);
    let label =
        format!("Heap map of {resource}: {} live, {} free", bytes(usage.live), bytes(usage.free));
    Some(Figure {
        legend: stream_legend(&usage, moment),
        svg: svg(height, &label, |canvas| draw(canvas, &layout, &tops)),
        caption: caption(&layout, &usage, moment),
    })
}

/// Totals of a heap.
#[derive(Default)]
struct Usage {
    live: u64,
    live_blocks: u64,
    streams: BTreeMap<u32, u64>,
    free: u64,
    free_ranges: u64,
    largest_free: u64,
}

impl Usage {
    fn of(blocks: &[HeapBlock]) -> Self {
        let mut usage = Self::default();
        for block in blocks {
            match block.state {
                BlockState::Live => {
                    usage.live = usage.live.saturating_add(block.size);
                    usage.live_blocks += 1;
                    let stream = usage.streams.entry(block.stream).or_default();
                    *stream = stream.saturating_add(block.size);
                }
                BlockState::Free => {
                    usage.free = usage.free.saturating_add(block.size);
                    usage.free_ranges += 1;
                    usage.largest_free = usage.largest_free.max(block.size);
                }
            }
        }
        usage
    }
}

fn stream_legend(usage: &Usage, moment: Moment) -> String {
    let name = |stream: u32| match moment {
        Moment::Peak if stream == HeapBlock::SEVERAL_STREAMS => "several streams".to_owned(),
        Moment::Peak => format!("stream {stream}"),
        Moment::Now => "live".to_owned(),
    };
    let mut entries: Vec<(&str, String, String)> = usage
        .streams
        .iter()
        .take(NAMED_STREAMS)
        .map(|(&stream, &live)| {
            ("", css(stream_colour(stream)), format!("{}: {}", name(stream), bytes(live)))
        })
        .collect();
    if usage.streams.len() > NAMED_STREAMS {
        let more = (usage.streams.len() - NAMED_STREAMS) as u64;
        entries.push(("", "none".to_owned(), format!("and {}", count(more, "more stream"))));
    }
    entries.push(("free", css(FREE), format!("free: {}", bytes(usage.free))));
    legend(entries)
}

fn caption(layout: &Layout, usage: &Usage, moment: Moment) -> String {
    let (when, by) = match moment {
        Moment::Peak => ("when most is live", " by stream"),
        Moment::Now => ("now", ""),
    };
    let (hidden, hidden_bytes) = layout.hidden;
    let mut text = format!(
        "The memory that the resource holds {when}, by address: {} ({}). A segment is one allocation from the \
         driver; a full row is {}, and a longer segment goes on in the next row. Coloured: {}{by}. Grey: {} free",
        count(layout.segments as u64, "segment"),
        bytes(usage.live.saturating_add(usage.free)),
        bytes(layout.row_bytes),
        count(usage.live_blocks, "live block"),
        bytes(usage.free),
    );
    // Writing to a String cannot fail.
    if usage.free_ranges > 0 {
        let _ = write!(
            text,
            " in {}, the largest {}",
            count(usage.free_ranges, "range"),
            bytes(usage.largest_free)
        );
    }
    let _ = write!(
        text,
        ". A live block smaller than a pixel ({}) is drawn a pixel wide.",
        bytes(layout.row_bytes / u64::from(ROW_WIDTH.unsigned_abs()))
    );
    if layout.gap_bytes > 0 {
        let gaps = bytes(layout.gap_bytes);
        let _ = write!(text, " White: {gaps} of addresses without memory.");
    }
    if hidden > 0 {
        let _ = write!(
            text,
            " Not shown: {} ({}).",
            count(hidden as u64, "smaller segment"),
            bytes(hidden_bytes)
        );
    }
    if usage.streams.keys().any(|&stream| stream as usize >= PALETTE.len()) {
        let _ = write!(text, " Streams share {} colours.", PALETTE.len());
    }
    text
}

/// The upper edge of each row.
fn tops(rows: &[Row]) -> Vec<i32> {
    let mut top = TOP - SEGMENT_GAP;
    let mut tops = Vec::with_capacity(rows.len());
    for row in rows {
        if row.offset == 0 {
            top += SEGMENT_GAP;
        }
        tops.push(top);
        top += ROW_STEP;
    }
    tops
}

fn draw(canvas: &Canvas<'_>, layout: &Layout, tops: &[i32]) -> Drawn {
    for (row, &top) in layout.rows.iter().zip(tops) {
        let label = if row.offset == 0 {
            format!("segment {}", row.segment)
        } else {
            format!("+{}", bytes(row.offset))
        };
        let place = (LEFT - 10, top + ROW_HEIGHT / 2);
        text(canvas, label, place, HPos::Right, &font(16))?;

        let end = x(row.pixels);
        canvas.draw(&Rectangle::new([(LEFT, top), (end, top + ROW_HEIGHT)], FREE.filled()))?;
        for gap in &row.gaps {
            let area = [(x(gap.start), top), (x(gap.end), top + ROW_HEIGHT)];
            canvas.draw(&Rectangle::new(area, WHITE.filled()))?;
        }
        for span in &row.fine {
            canvas.draw(&block(span, top))?;
        }
        for span in &row.wide {
            canvas.draw(&block(span, top))?;
            // A white edge, so that neighbours of the same stream are seen as two.
            let edge = x(span.end) - 1;
            canvas.draw(&Rectangle::new(
                [(edge, top), (edge + 1, top + ROW_HEIGHT)],
                WHITE.filled(),
            ))?;
        }
        canvas.draw(&Rectangle::new([(LEFT, top), (end, top + ROW_HEIGHT)], FREE_EDGE))?;
    }
    Ok(())
}

fn block(span: &Span, top: i32) -> Rectangle<(i32, i32)> {
    Rectangle::new(
        [(x(span.start), top), (x(span.end), top + ROW_HEIGHT)],
        stream_colour(span.stream).filled(),
    )
}

/// A pixel of a row as a coordinate of the picture.
fn x(pixel: u64) -> i32 {
    i32::try_from(pixel).unwrap_or(ROW_WIDTH).min(ROW_WIDTH) + LEFT
}
