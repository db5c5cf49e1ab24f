//! Operation lists, validated once, so that a timed loop need not.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::fmt;

use rmm_report::trace::{Action, Trace};

use crate::protocol::{Op, RandomOps};

/// The alignment of all blocks.
const ALIGNMENT: usize = 256;

/// One call, ready to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Allocate { slot: usize, stream: usize, layout: Layout },
    Free { slot: usize, stream: usize, layout: Layout },
}

/// `action,slot,size,stream`, as the runner of the peers reads it.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Allocate { slot, stream, layout } | Self::Free { slot, stream, layout }) = self;
        let action = if matches!(self, Self::Allocate { .. }) { "allocate" } else { "free" };
        write!(f, "{action},{slot},{},{stream}", layout.size())
    }
}

/// Calls that leave nothing behind.
#[derive(Clone, Debug)]
pub struct Program {
    /// # Invariant
    /// An allocation's slot is empty; a free's slot holds a block of its layout; at the end all
    /// slots are empty. Slots and streams are below `slots` and `streams`.
    calls: Vec<Call>,
    slots: usize,
    streams: usize,
}

impl Program {
    /// Makes a random list of the protocol ready.
    ///
    /// # Errors
    /// If a size is too large for this machine.
    pub fn random(ops: RandomOps) -> Result<Self, String> {
        let mut builder = Builder::default();
        for Op { is_allocation, slot, size, stream } in ops.build() {
            builder.add(is_allocation, slot, size, stream)?;
        }
        Ok(builder.finish())
    }

    /// Makes the first `count` allocations of a random list ready, none of which is freed before
    /// all are made.
    ///
    /// # Errors
    /// If a size is too large for this machine.
    pub fn allocations(ops: RandomOps, count: usize) -> Result<Self, String> {
        Self::burst(ops, count, |number| number)
    }

    /// The same; they are freed in this order, a permutation of the numbers below `count`.
    ///
    /// # Errors
    /// If a size is too large for this machine, or the order frees a block twice.
    pub fn burst(
        ops: RandomOps,
        count: usize,
        order: impl Fn(usize) -> usize,
    ) -> Result<Self, String> {
        let mut builder = Builder::default();
        let all = ops.build().into_iter().filter(|op| op.is_allocation);
        let first: Vec<Op> = all.take(count).collect();
        for (slot, Op { size, stream, .. }) in first.iter().enumerate() {
            builder.add(true, slot, *size, *stream)?;
        }
        for slot in (0..first.len()).map(order) {
            let Op { size, stream, .. } = first.get(slot).ok_or("no such block")?;
            builder.add(false, slot, *size, *stream)?;
        }
        Ok(builder.finish())
    }

    /// Makes a recorded trace ready. What it leaves allocated is freed at its end, and what failed
    /// when it was recorded is left out.
    ///
    /// # Errors
    /// If a size is too large for this machine.
    pub fn recorded(trace: &Trace) -> Result<Self, String> {
        let mut builder = Builder::default();
        let bytes = |size: u64| {
            usize::try_from(size).map_err(|_| format!("{size} bytes are too many for this machine"))
        };
        for event in &trace.events {
            let stream = event.stream as usize;
            match event.action {
                Action::Allocate { block, size } => {
                    builder.add(true, block as usize, bytes(size)?, stream)?;
                }
                Action::Free { block, size } => {
                    builder.add(false, block as usize, bytes(size)?, stream)?;
                }
                Action::AllocateFailure { .. } => {}
            }
        }
        Ok(builder.finish())
    }

    /// How many calls it makes.
    pub fn calls(&self) -> u64 {
        self.list().len() as u64
    }

    /// The most bytes live at once, each size rounded up to 256: no allocator can hold less.
    pub fn peak_live(&self) -> u64 {
        let (mut live, mut peak) = (0, 0);
        for call in self.list() {
            match call {
                Call::Allocate { layout, .. } => live += layout.pad_to_align().size() as u64,
                Call::Free { layout, .. } => live -= layout.pad_to_align().size() as u64,
            }
            peak = peak.max(live);
        }
        peak
    }

    pub(crate) fn list(&self) -> &[Call] {
        &self.calls
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    pub(crate) fn streams(&self) -> usize {
        self.streams
    }
}

/// Keeps the invariant of [`Program::calls`].
#[derive(Default)]
struct Builder {
    calls: Vec<Call>,
    /// Index: a slot. The layout and the last stream of the block that is there.
    live: Vec<Option<(Layout, usize)>>,
    streams: usize,
}

impl Builder {
    fn add(
        &mut self,
        is_allocation: bool,
        slot: usize,
        size: usize,
        stream: usize,
    ) -> Result<(), String> {
        let layout = Layout::from_size_align(size, ALIGNMENT)
            .map_err(|error| format!("{size} bytes: {error}"))?;
        if slot >= self.live.len() {
            self.live.resize(slot + 1, None);
        }
        self.streams = self.streams.max(stream + 1);
        match (is_allocation, self.live[slot]) {
            (true, None) => {
                self.live[slot] = Some((layout, stream));
                self.calls.push(Call::Allocate { slot, stream, layout });
                Ok(())
            }
            (false, Some((allocated, _))) if allocated == layout => {
                self.live[slot] = None;
                self.calls.push(Call::Free { slot, stream, layout });
                Ok(())
            }
            _ => Err(format!("slot {slot} cannot be used so: {} bytes", layout.size())),
        }
    }

    fn finish(mut self) -> Program {
        for (slot, live) in self.live.iter().enumerate() {
            if let Some((layout, stream)) = *live {
                self.calls.push(Call::Free { slot, stream, layout });
            }
        }
        Program { calls: self.calls, slots: self.live.len(), streams: self.streams }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_leaves_blocks_is_completed() {
        let log = "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,0x10,64,a\n1,0,allocate,0x20,32,b\n\
                   1,0,allocate failure,(nil),99,b\n1,0,free,0x10,64,b\n";
        let trace = rmm_report::trace::read_from("log", log.as_bytes()).unwrap();
        let program = Program::recorded(&trace).unwrap();
        assert_eq!((program.calls(), program.slots(), program.streams()), (4, 2, 2));
        assert_eq!(program.peak_live(), 512);
        assert_eq!(program.list()[1].to_string(), "allocate,1,32,1");
        let last = program.list().last();
        assert!(
            matches!(last, Some(Call::Free { slot: 1, stream: 1, layout }) if layout.size() == 32)
        );
    }

    #[test]
    fn allocations_come_before_all_frees() {
        let program = Program::allocations(RandomOps::growing(), 4_000).unwrap();
        assert_eq!((program.calls(), program.slots(), program.streams()), (8_000, 4_000, 1));
        let (allocations, frees) = program.list().split_at(4_000);
        assert!(allocations.iter().all(|call| matches!(call, Call::Allocate { .. })));
        assert!(frees.iter().all(|call| matches!(call, Call::Free { .. })));
        assert_eq!(program.peak_live() >> 20, 6_394, "MiB");
        let lifo = Program::burst(RandomOps::growing(), 3, |number| 2 - number).unwrap();
        assert!(lifo.list()[3].to_string().starts_with("free,2,"));
        assert!(Program::burst(RandomOps::growing(), 3, |_| 0).is_err(), "freed twice");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let mut builder = Builder::default();
        builder.add(true, 0, 64, 0).unwrap();
        assert!(builder.add(true, 0, 64, 0).is_err(), "the slot is taken");
        assert!(builder.add(false, 0, 32, 0).is_err(), "another size");
        assert!(builder.add(false, 1, 64, 0).is_err(), "nothing is there");
        assert!(builder.add(true, 1, usize::MAX, 0).is_err(), "no such layout");
    }
}
