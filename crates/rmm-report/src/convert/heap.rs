//! The live blocks of a trace, event by event.

use crate::trace::{Action, Trace};

/// A point of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Where the most bytes are live, of those that were asked for; before the first event if that
    /// is where.
    Peak,
    /// After the last event.
    End,
    /// After the event with this number, from 0; after the last one if there are fewer.
    Event(usize),
}

/// What is live at a [`Moment`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many events come before.
    pub events: usize,
    /// Live blocks.
    pub blocks: u64,
    /// Their bytes, as asked for.
    pub bytes: u64,
}

/// What is live in a trace at a moment.
pub fn usage(trace: &Trace, moment: Moment) -> Usage {
    let mut heap = Heap::new(trace);
    for index in 0..events_before(trace, moment) {
        heap.step(trace, index);
    }
    heap.usage
}

/// How many events are before a moment.
pub(super) fn events_before(trace: &Trace, moment: Moment) -> usize {
    match moment {
        Moment::End => trace.events.len(),
        Moment::Event(index) => index.saturating_add(1).min(trace.events.len()),
        Moment::Peak => {
            let mut heap = Heap::new(trace);
            let mut most = heap.usage;
            for index in 0..trace.events.len() {
                heap.step(trace, index);
                if heap.usage.bytes > most.bytes {
                    most = heap.usage;
                }
            }
            most.events
        }
    }
}

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) size: u64,
    pub(super) tag: u32,
    pub(super) site: u32,
    pub(super) stream: u32,
    pub(super) device: u32,
}

/// The live blocks by their slots.
pub(super) struct Heap {
    pub(super) usage: Usage,
    slots: Vec<Option<Block>>,
}

impl Heap {
    /// Before the first event.
    pub(super) fn new(trace: &Trace) -> Self {
        let mut heap = Self { usage: Usage::default(), slots: vec![None; trace.blocks as usize] };
        for before in &trace.before {
            let block = Block {
                size: before.size,
                tag: before.tag,
                site: before.site,
                stream: before.stream,
                device: before.device,
            };
            heap.put(before.block, block);
        }
        heap
    }

    /// Does the next event; returns the block that it allocated or freed.
    pub(super) fn step(&mut self, trace: &Trace, index: usize) -> Option<Block> {
        let event = trace.events.get(index)?;
        self.usage.events = index + 1;
        match event.action {
            Action::Allocate { block: slot, size } => {
                let block = Block {
                    size,
                    tag: trace.tag(index),
                    site: trace.site(index),
                    stream: event.stream,
                    device: trace.device(index),
                };
                self.put(slot, block);
                Some(block)
            }
            Action::Free { block: slot, .. } => {
                let block = self.slots.get_mut(slot as usize)?.take()?;
                self.usage.blocks -= 1;
                self.usage.bytes -= block.size;
                Some(block)
            }
            Action::AllocateFailure { .. } => None,
        }
    }

    fn put(&mut self, slot: u32, block: Block) {
        // A caller may have built the trace.
        let Some(place) = self.slots.get_mut(slot as usize) else { return };
        if let Some(old) = place.replace(block) {
            self.usage.blocks -= 1;
            self.usage.bytes -= old.size;
        }
        self.usage.blocks += 1;
        self.usage.bytes = self.usage.bytes.saturating_add(block.size);
    }

    /// The live blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.slots.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_from;

    #[test]
    fn the_peak_is_that_of_the_trace() {
        let log = "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,0x10,300,0\n\
                   1,0,free,0x20,100,0\n1,0,allocate,0x20,50,0\n1,0,free,0x10,300,0\n";
        let trace = read_from("log.csv", log.as_bytes()).expect("a log");
        let at = |moment| {
            let Usage { events, blocks, bytes } = usage(&trace, moment);
            (events, blocks, bytes)
        };
        assert_eq!(at(Moment::Peak), (1, 2, trace.peak_live));
        assert_eq!(at(Moment::End), (4, 1, 50));
        assert_eq!(at(Moment::Event(1)), (2, 1, 300));
        assert_eq!(at(Moment::Event(usize::MAX)), (4, 1, 50));
    }

    #[test]
    fn the_peak_may_be_before_the_first_event() {
        let log = "Thread,Time,Action,Pointer,Size,Stream\n1,0,free,0x20,100,0\n";
        let trace = read_from("log.csv", log.as_bytes()).expect("a log");
        assert_eq!(usage(&trace, Moment::Peak), Usage { events: 0, blocks: 1, bytes: 100 });
    }
}
