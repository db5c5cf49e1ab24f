//! A view as compressed columns, which the page's script reads.
//!
//! A column is a sequence of numbers, seven bits a byte, the lowest first, and the eighth bit says
//! that more follow. It is deflated (zlib) and written as base64. Columns that are the same, such
//! as those of one log against two resources, are written once.

mod places;
mod varint;

use std::collections::HashMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use places::Places;
use varint::{push, zigzag};

use super::view::{NEVER, View, ViewBlock};

/// The most blocks of a view that a page holds: 4,194,304, which are about 8 million events. Beyond
/// it the largest are kept.
pub const MAX_BLOCKS: usize = 1 << 22;

/// Times are written at up to this many positions; the script draws straight lines between them.
const TIMES: usize = 1 << 16;

/// Columns of a page under construction.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// As base64.
    pub(crate) texts: Vec<String>,
    known: HashMap<[u8; 32], usize>,
}

impl Columns {
    /// Adds a column; returns its number.
    fn add(&mut self, bytes: &[u8]) -> usize {
        *self.known.entry(Sha256::digest(bytes).into()).or_insert_with(|| {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
            // Writing to memory does not fail.
            drop(encoder.write_all(bytes));
            self.texts.push(BASE64.encode(encoder.finish().unwrap_or_default()));
            self.texts.len() - 1
        })
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = u64>) -> usize {
        let mut bytes = Vec::new();
        numbers.into_iter().for_each(|number| push(&mut bytes, number));
        self.add(&bytes)
    }

    /// A column of one number a block, or that number if it is the same for all.
    fn indices(&mut self, blocks: &[&ViewBlock], index: impl Fn(&ViewBlock) -> u32) -> Value {
        let first = blocks.first().map_or(0, |block| index(block));
        if blocks.iter().all(|block| index(block) == first) {
            return json!({ "all": first });
        }
        json!(self.numbers(blocks.iter().map(|block| index(block).into())))
    }
}

/// Adds a view's columns; returns what the script has to know of it beside them.
pub(crate) fn view(view: &View, columns: &mut Columns) -> Value {
    let (blocks, left_out) = kept(view);
    let places = Places::of(&blocks, &view.segments);
    let mut previous = 0;
    let starts = columns.numbers(blocks.iter().map(|block| {
        let delta = block.start.saturating_sub(previous);
        previous = block.start;
        u64::from(delta)
    }));
    let lengths = columns.numbers(blocks.iter().map(|block| match block.end {
        NEVER => 0,
        end => u64::from(end.saturating_sub(block.start).max(1)),
    }));
    let sizes = sizes(&blocks, columns);
    let mut previous = 0;
    let addresses = columns.numbers(blocks.iter().map(|block| {
        let place = places.of_address(block.address);
        let delta = zigzag(place.cast_signed().wrapping_sub(previous));
        previous = place.cast_signed();
        delta
    }));
    let positions = |changes: &[(u32, u64)]| {
        let mut previous = (0, 0);
        let mut numbers = Vec::with_capacity(changes.len() * 2);
        for &(position, number) in changes {
            numbers.push(u64::from(position.saturating_sub(previous.0)));
            numbers.push(zigzag(number.cast_signed().wrapping_sub(previous.1)));
            previous = (position, number.cast_signed());
        }
        numbers
    };
    let segments = view.segments.iter().flat_map(|segment| {
        let start = places.of_address(segment.address);
        let end = if segment.end == NEVER { 0 } else { u64::from(segment.end) };
        [u64::from(segment.start), end, start, segment.size / places.unit]
    });
    json!({
        "log": view.log,
        "resource": view.resource,
        "events": view.events,
        "blocks": blocks.len(),
        "leftOut": left_out,
        "unit": places.unit,
        "page": places.page,
        "pages": columns.numbers(places.numbers()),
        "start": starts,
        "length": lengths,
        "size": sizes,
        "address": addresses,
        "stream": columns.indices(&blocks, |block| block.stream),
        "thread": columns.indices(&blocks, |block| block.thread),
        "tag": columns.indices(&blocks, |block| block.tag),
        "site": columns.indices(&blocks, |block| block.site),
        "streams": view.names.streams,
        "threads": view.names.threads,
        "tags": view.names.tags,
        "sites": view.names.sites,
        "reserved": view.reserved.as_ref().map(|changes| columns.numbers(positions(changes))),
        "waits": columns.numbers(positions(&all_waits(view))),
        "segments": (!view.segments.is_empty()).then(|| columns.numbers(segments)),
        "times": times(view, columns),
        "counted": view.counted.iter().map(|counted| json!({
            "at": counted.position,
            "parts": counted.parts,
        })).collect::<Vec<_>>(),
        "failures": view.failures.iter().map(|failure| json!({
            "at": failure.position,
            "size": failure.size,
            "text": failure.text,
            "limit": failure.limit.map(|limit| limit.most),
            "stream": failure.stream,
            "tag": failure.tag,
            "site": failure.site,
        })).collect::<Vec<_>>(),
    })
}

/// The blocks that the page holds, and what it leaves out if there are more: how many, and the most
/// bytes that one of them has.
fn kept(view: &View) -> (Vec<&ViewBlock>, Value) {
    let all: Vec<&ViewBlock> = view.blocks.iter().collect();
    if all.len() <= MAX_BLOCKS {
        return (all, Value::Null);
    }
    let mut sizes: Vec<u64> = all.iter().map(|block| block.size).collect();
    let rank = sizes.len() - MAX_BLOCKS;
    let smallest = *sizes.select_nth_unstable(rank).1;
    // Of those that have just this size, the first.
    let larger = all.iter().filter(|block| block.size > smallest).count();
    let mut equal = MAX_BLOCKS - larger;
    let is_kept = |block: &&ViewBlock| {
        block.size > smallest
            || (block.size == smallest && {
                let is_kept = equal > 0;
                equal = equal.saturating_sub(1);
                is_kept
            })
    };
    let kept: Vec<&ViewBlock> = all.iter().copied().filter(is_kept).collect();
    let left_out = json!({ "blocks": all.len() - kept.len(), "bytes": smallest });
    (kept, left_out)
}

/// The sizes: numbers of a table where they repeat, the most frequent first.
fn sizes(blocks: &[&ViewBlock], columns: &mut Columns) -> Value {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for block in blocks {
        *counts.entry(block.size).or_default() += 1;
    }
    if counts.len() * 4 > blocks.len() {
        return json!({ "plain": columns.numbers(blocks.iter().map(|block| block.size)) });
    }
    let mut table: Vec<(u64, u32)> = counts.into_iter().collect();
    table.sort_unstable_by_key(|&(size, count)| (std::cmp::Reverse(count), size));
    let place: HashMap<u64, u64> = table.iter().map(|&(size, _)| size).zip(0..).collect();
    json!({
        "table": columns.numbers(table.iter().map(|&(size, _)| size)),
        "index": columns.numbers(blocks.iter().map(|block| place.get(&block.size).copied().unwrap_or(0))),
    })
}

/// Waits of streams and of the program, by position.
fn all_waits(view: &View) -> Vec<(u32, u64)> {
    let mut waits = [view.waits.as_slice(), &view.host_waits].concat();
    waits.sort_unstable();
    waits
}

/// The times in microseconds, of every `step`th event.
fn times(view: &View, columns: &mut Columns) -> Value {
    if view.times.is_empty() {
        return Value::Null;
    }
    let step = view.times.len().div_ceil(TIMES);
    let mut previous = 0;
    let last = view.times.len() - 1;
    let sampled = (0..last).step_by(step).chain([last]).map(|index| {
        let time = view.times[index] / 1000;
        let delta = time.saturating_sub(previous);
        previous = time;
        delta
    });
    json!({ "step": step, "column": columns.numbers(sampled) })
}

#[cfg(test)]
#[path = "encode/tests.rs"]
mod tests;
