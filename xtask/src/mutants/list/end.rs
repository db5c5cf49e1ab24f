//! Mutants of closing a pool, and of panics and refusals of the upstream.

use crate::mutants::mutant::Mutant;

const LADDER: &str = "crates/rmm-adaptors/src/pool/ladder.rs";
const SHRINK: &str = "crates/rmm-adaptors/src/pool/shrink.rs";
const EXTENTS: &str = "crates/rmm-adaptors/src/pool/extents.rs";
const FREE: &str = "crates/rmm-adaptors/src/pool/free.rs";
const GROW: &str = "crates/rmm-adaptors/src/pool/grow.rs";
const CLOSE: &str = "crates/rmm-adaptors/src/pool/close.rs";
const GRAPHS: &str = "crates/rmm-adaptors/src/pool/graphs.rs";
const PIECES: &str = "crates/rmm-adaptors/src/pool/heap/pieces.rs";
const STATE: &str = "crates/rmm-adaptors/src/pool/state.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "trim-waits-during-a-capture",
        file: SHRINK,
        original: "if !session.timeline.polls && !session.may_capture() {",
        replacement: "if !session.timeline.polls {",
        breaks: "to trim a deterministic pool spoils captures",
    },
    Mutant {
        name: "end-without-waiting",
        file: CLOSE,
        original: "if ask_again(Device::synchronize_current).is_ok() {",
        replacement: "if ask_again(Device::synchronize_current).is_ok() || true {",
        breaks: "the pool returns memory at its end although the wait for the device has failed",
    },
    Mutant {
        name: "end-returns-live-blocks",
        file: CLOSE,
        original: "block.free_in.is_none_or(|list| unknown.contains(&list))",
        replacement: "block.free_in.is_some_and(|list| unknown.contains(&list))",
        breaks: "memory with a block that is handed out goes back at the pool's end",
    },
    Mutant {
        name: "end-forgets-the-lost",
        file: CLOSE,
        original: "        unknown.extend(state.quarantine());\n",
        replacement: "",
        breaks: "blocks that no event stands for go back while their streams are at work",
    },
    Mutant {
        name: "end-asks-once",
        file: CLOSE,
        original: "ask_again(Device::synchronize_current)",
        replacement: "Device::synchronize_current()",
        breaks: "a wait that fails once leaves memory allocated for good",
    },
    Mutant {
        name: "end-takes-unsealed-for-done",
        file: CLOSE,
        original: "waited.is_err() || state.timeline.is_unsealed(list)",
        replacement: "waited.is_err()",
        breaks: "what a captured stream freed goes back without an event",
    },
    Mutant {
        name: "a-piece-is-judged-by-its-first-block",
        file: PIECES,
        original: "(block.segment, block.offset + block.size) <= (piece.segment, piece.offset)",
        replacement: "(block.segment, block.offset) <= (piece.segment, piece.offset)",
        breaks: "a piece goes back with a block that began before it",
    },
    Mutant {
        name: "kept-odd-block-counts-for-ever",
        file: FREE,
        original: "&& self.is_undersized(layout, bytes)",
        replacement: "&& self.is_undersized(layout, bytes) && false",
        breaks: "a block smaller than its class that a graph keeps turns the caches off for good",
    },
    Mutant {
        name: "kept-block-is-not-counted-out",
        file: GRAPHS,
        original: "self.statistics.graph_bytes += bytes;",
        replacement: "self.statistics.graph_bytes += bytes / 2;",
        breaks: "the bytes that graphs keep are wrong",
    },
    Mutant {
        name: "a-panic-ends-the-returns",
        file: STATE,
        original: "        outcome = outcome.and(given);",
        replacement: "        outcome = outcome.and(given);\n        if outcome.is_err() {\n            break;\n        }",
        breaks: "a panic of upstream over one piece loses the others",
    },
    Mutant {
        name: "a-panic-keeps-the-claim",
        file: GROW,
        original: "                    self.abort(extent, list);\n                    resume_unwind(panic)\n                }\n            };\n            let Err((offset, error)) = outcome",
        replacement: "                    resume_unwind(panic)\n                }\n            };\n            let Err((offset, error)) = outcome",
        breaks: "a panic of upstream leaves its place claimed for good",
    },
    Mutant {
        name: "a-panic-while-room-is-made-keeps-the-range",
        file: GROW,
        original: "                    self.abort(extent, list);\n                    resume_unwind(panic)\n                }\n            };\n            let program_pace",
        replacement: "                    resume_unwind(panic)\n                }\n            };\n            let program_pace",
        breaks: "free memory stays reserved for good once upstream has panicked while it took memory back",
    },
    Mutant {
        name: "a-panic-loses-what-was-made",
        file: EXTENTS,
        original: "for (base, layout) in self.blocks.drain(..) {",
        replacement: "for (base, layout) in self.blocks.drain(..).take(0) {",
        breaks: "pages that were mapped before a failure stay mapped",
    },
    Mutant {
        name: "a-refused-step-is-halved",
        file: GROW,
        original: "Err(_) if bytes > least => bytes = least,",
        replacement: "Err(_) if bytes > least => {\n                    bytes = least.max(core.growth.whole_pages(bytes / 2 / 256 * 256));\n                }",
        breaks: "after a refusal the pool takes more than the need, and leaves nothing for the next request",
    },
    Mutant {
        name: "a-panic-keeps-the-pin",
        file: LADDER,
        original: "session.timeline.unpin(request.list);",
        replacement: "if outcome.is_ok() { session.timeline.unpin(request.list); }",
        breaks: "a panic of upstream keeps a stream's place for good",
    },
];
