//! What a program was doing at a time: the ranges that PyTorch's profiler hooks record beside the
//! events, such as `Optimizer.step#Adam.step`.

use std::collections::HashMap;

use super::super::pickle::{Node, Pickle, Value};

/// How many open ranges are looked at for the one that ends.
const NESTED: usize = 64;

/// The ranges of each device.
#[derive(Debug, Default)]
pub(super) struct Annotations(HashMap<u64, Ranges>);

#[derive(Debug, Default)]
struct Ranges {
    /// Sorted by time.
    marks: Vec<Mark>,
    /// The first mark that is not yet passed.
    next: usize,
    /// The names of the ranges that are open there, the innermost last.
    open: Vec<Value>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    time: i64,
    is_start: bool,
    name: Value,
}

impl Annotations {
    /// Reads `external_annotations`; what is not of the known form is passed over.
    pub(super) fn read(pickle: &Pickle) -> Self {
        let mut all = Self::default();
        let list = pickle.get(pickle.root(), "external_annotations");
        let list = list.and_then(|list| pickle.sequence(pickle.node(list)));
        for &annotation in list.unwrap_or_default() {
            let annotation = pickle.node(annotation);
            let number = |key| match pickle.node(pickle.get(annotation, key)?) {
                Node::Int(number) => Some(number),
                _ => None,
            };
            let is_start = pickle.get(annotation, "stage").and_then(|stage| {
                match (pickle.is_text(stage, "START"), pickle.is_text(stage, "END")) {
                    (false, false) => None,
                    (is_start, _) => Some(is_start),
                }
            });
            let name = pickle.get(annotation, "name");
            if let (Some(is_start), Some(name), Some(time)) = (is_start, name, number("time_us")) {
                let device = number("device").unwrap_or(0).cast_unsigned();
                all.0.entry(device).or_default().marks.push(Mark { time, is_start, name });
            }
        }
        for ranges in all.0.values_mut() {
            ranges.marks.sort_by_key(|mark| mark.time);
        }
        all
    }

    /// The name of the innermost range that is open on a device at a time, which must not be before
    /// that of the last call for this device.
    pub(super) fn at(&mut self, pickle: &Pickle, device: usize, time: Option<i64>) -> Option<Node> {
        let (time, ranges) = (time?, self.0.get_mut(&(device as u64))?);
        while let Some(&mark) = ranges.marks.get(ranges.next).filter(|mark| mark.time <= time) {
            ranges.next += 1;
            if mark.is_start {
                ranges.open.push(mark.name);
                continue;
            }
            let ended = pickle.text(pickle.node(mark.name))?;
            let mut innermost = ranges.open.iter().rev().take(NESTED);
            // Threads may end theirs in another order.
            if let Some(above) = innermost.position(|&name| pickle.is_text(name, &ended)) {
                ranges.open.remove(ranges.open.len() - 1 - above);
            }
        }
        ranges.open.last().map(|&name| pickle.node(name))
    }
}
