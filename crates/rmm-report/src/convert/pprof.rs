//! A trace as a profile of pprof.

mod messages;
mod table;

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;

use super::frames::frames;
use super::heap::{Block, Heap, Moment, events_before};
use crate::trace::{Action, NO_DEVICE, Trace};
use messages::{Label, Mapping, Profile, Sample, ValueType};
use table::Table;

/// The names and units of a sample's values, as Go's profiles of the heap have them.
const VALUES: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// The function of blocks whose site is unknown.
const NO_SITE: &str = "(site unknown)";

/// Writes a trace as a profile, compressed with gzip.
///
/// A sample is for each site, tag, stream and device: blocks and bytes that were allocated up to
/// the moment (`alloc_objects`, `alloc_space`), and those in use then (`inuse_objects`,
/// `inuse_space`). Blocks that were live before the first event are in use and not allocated. The
/// stack of a sample is its site's; `tag`, `stream` and `device` are labels.
///
/// # Errors
/// Those of the writer.
pub fn pprof(trace: &Trace, moment: Moment, to: &mut dyn Write) -> io::Result<()> {
    let profile = profile(trace, moment);
    let mut encoder = GzEncoder::new(to, Compression::default());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()?;
    Ok(())
}

fn profile(trace: &Trace, moment: Moment) -> Profile {
    let events = events_before(trace, moment);
    let mut samples = Samples::default();
    let mut heap = Heap::new(trace);
    for (index, event) in trace.events.iter().enumerate().take(events) {
        let block = heap.step(trace, index);
        if let (Some(block), Action::Allocate { .. }) = (block, event.action) {
            samples.add(&block, 0);
        }
    }
    for block in heap.blocks() {
        samples.add(block, 2);
    }

    let mut table = Table::default();
    let sample_type = VALUES
        .map(|(name, unit)| ValueType { r#type: table.text(name), unit: table.text(unit) })
        .to_vec();
    let sample = samples.values.iter().map(|(block, values)| Sample {
        location_id: stack(trace, block, &mut table),
        value: values.to_vec(),
        label: labels(trace, block, &mut table),
    });
    let sample = sample.collect();
    let mapping = Mapping {
        id: 1,
        filename: table.text(&trace.path.display().to_string()),
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
    };
    let comment = format!("in use after {events} of {} events", trace.events.len());
    let comment = vec![table.text(&comment)];
    let last = trace.time(trace.events.len().saturating_sub(1)).unwrap_or(0);
    Profile {
        sample_type,
        sample,
        mapping: vec![mapping],
        duration_nanos: signed(last),
        comment,
        default_sample_type: table.text("inuse_space"),
        location: table.locations,
        function: table.functions,
        string_table: table.texts,
    }
}

/// Sums for blocks that are alike but for their sizes, which are left 0.
#[derive(Default)]
struct Samples {
    places: HashMap<(u32, u32, u32, u32), usize>,
    values: Vec<(Block, [i64; 4])>,
}

impl Samples {
    /// Counts a block and its bytes in the values at `first` and behind it.
    fn add(&mut self, block: &Block, first: usize) {
        let key = (block.tag, block.site, block.stream, block.device);
        let place = *self.places.entry(key).or_insert_with(|| {
            self.values.push((Block { size: 0, ..*block }, [0; 4]));
            self.values.len() - 1
        });
        if let Some((_, values)) = self.values.get_mut(place) {
            values[first] += 1;
            values[first + 1] = values[first + 1].saturating_add(signed(block.size));
        }
    }
}

fn stack(trace: &Trace, block: &Block, table: &mut Table) -> Vec<u64> {
    let site = trace.sites.get(block.site as usize).map_or("", String::as_str);
    let site = if site.is_empty() { NO_SITE } else { site };
    frames(site).map(|frame| table.location(frame)).collect()
}

fn labels(trace: &Trace, block: &Block, table: &mut Table) -> Vec<Label> {
    let mut labels = Vec::new();
    if let Some(tag) = trace.tags.get(block.tag as usize).filter(|tag| !tag.is_empty()) {
        labels.push(Label { key: table.text("tag"), str: table.text(tag), num: 0 });
    }
    let stream = trace.streams.get(block.stream as usize).copied().unwrap_or(0);
    let stream = format!("{stream:#x}");
    labels.push(Label { key: table.text("stream"), str: table.text(&stream), num: 0 });
    let device = trace.devices.get(block.device as usize).copied();
    if let Some(ordinal) = device.filter(|&ordinal| ordinal != NO_DEVICE) {
        let ordinal = ordinal.to_string();
        labels.push(Label { key: table.text("device"), str: table.text(&ordinal), num: 0 });
    }
    labels
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "pprof/tests.rs"]
mod tests;
