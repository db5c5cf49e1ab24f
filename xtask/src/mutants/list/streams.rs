//! Mutants of the pool's list of streams, when there are many or when they end.

use crate::mutants::mutant::Mutant;

const TIMELINE: &str = "crates/rmm-adaptors/src/pool/timeline.rs";
const STREAMS: &str = "crates/rmm-adaptors/src/pool/streams.rs";
const PROBE: &str = "crates/rmm-adaptors/src/pool/probe.rs";
const TURNS: &str = "crates/rmm-adaptors/src/pool/reclaim_turns.rs";
const LADDER: &str = "crates/rmm-adaptors/src/pool/ladder.rs";
const LISTS: &str = "crates/rmm-adaptors/src/pool/heap/lists.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "points-begin-anew",
        file: TIMELINE,
        original: "self.first_open = self.first_open.max(slot.open);",
        replacement: "self.first_open = self.first_open.max(1);",
        breaks: "a wait for a stream that is gone counts as one for the stream that gets its number",
    },
    Mutant {
        name: "living-streams-are-forgotten",
        file: TIMELINE,
        original: "!self.slots[list.index()].is_reachable()",
        replacement: "!self.slots[list.index()].is_spare",
        breaks: "a stream that is captured is not looked at before the device is waited for, and blocks in its caches are lost",
    },
    Mutant {
        name: "slots-of-streams-that-are-gone-stay",
        file: STREAMS,
        original: "            self.sweep(state);\n",
        replacement: "",
        breaks: "each stream takes host memory for good, and keeps what it freed from the others",
    },
    Mutant {
        name: "lists-that-were-empty-once-are-passed-over",
        file: LISTS,
        original: "            its.is_listed = false;\n",
        replacement: "",
        breaks: "what a stream frees is found by no other",
    },
    Mutant {
        name: "turns-never-begin",
        file: LADDER,
        original: "if session.heap.is_of_several_streams() && session.has_called() {",
        replacement: "if session.heap.is_of_several_streams() && !session.has_called() {",
        breaks: "what other streams are done with lies apart until the pool runs short again",
    },
    Mutant {
        name: "turns-have-no-end",
        file: TURNS,
        original: "self.left -= 1;",
        replacement: "self.left -= 0;",
        breaks: "a pool that was short once asks the driver for ever",
    },
    Mutant {
        name: "turn-asks-and-takes-nothing",
        file: PROBE,
        original: "            self.heap.reclaim(list, done, RECLAIM_BATCH);\n            if self.heap",
        replacement: "            let _ = done;\n            if self.heap",
        breaks: "a turn asks the driver and leaves memory where it is",
    },
];
