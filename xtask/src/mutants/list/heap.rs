//! Mutants of the pool's heap: which block is free, and where a size goes.

use crate::mutants::mutant::Mutant;

const ABSORBED: &str = "crates/rmm-adaptors/src/pool/heap/absorbed.rs";
const HEAP: &str = "crates/rmm-adaptors/src/pool/heap.rs";
const EXTEND: &str = "crates/rmm-adaptors/src/pool/heap/extend.rs";
const WINDOW: &str = "crates/rmm-adaptors/src/pool/heap/window.rs";
const FUSE: &str = "crates/rmm-adaptors/src/pool/heap/coalesce.rs";
const RUNS: &str = "crates/rmm-adaptors/src/pool/heap/runs.rs";
const PIECES: &str = "crates/rmm-adaptors/src/pool/heap/pieces.rs";
const ZONES: &str = "crates/rmm-adaptors/src/pool/heap/zones.rs";
const FREE_LIST: &str = "crates/rmm-adaptors/src/pool/heap/free_list.rs";
const BINS: &str = "crates/rmm-adaptors/src/pool/heap/bins.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "small-part-joins-large-memory",
        file: HEAP,
        original: "(its == list && node.zone == zone).then_some((neighbour, point))",
        replacement: "(its == list).then_some((neighbour, point))",
        breaks: "a free part of a slab is coalesced into a large block that is in another list",
    },
    Mutant {
        name: "only-stream-asks-what-is-complete",
        file: "crates/rmm-adaptors/src/pool/streams.rs",
        original: "if !state.timeline.is_alone() {",
        replacement: "if true {",
        breaks: "the memory of the only stream becomes idle in parts that do not coalesce",
    },
    Mutant {
        name: "idle-memory-beside-a-freed-block-stays-apart",
        file: ABSORBED,
        original: "if is_idle && node.size <= size.max(TAKEN_IN) {",
        replacement: "if false {",
        breaks: "what the only stream frees does not coalesce with idle memory",
    },
    Mutant {
        name: "all-idle-memory-waits-for-a-freed-block",
        file: ABSORBED,
        original: "if is_idle && node.size <= size.max(TAKEN_IN) {",
        replacement: "if is_idle {",
        breaks: "a small free makes much idle memory wait for the stream's work",
    },
    Mutant {
        name: "idle-memory-of-several-streams-is-taken-in",
        file: HEAP,
        original: "list != ListId::ANY_STREAM && !self.is_of_several_streams() {",
        replacement: "list != ListId::ANY_STREAM {",
        breaks: "idle memory that other streams could use waits for one of them",
    },
    Mutant {
        name: "many-bytes-wait-for-an-event",
        file: "crates/rmm-adaptors/src/pool/allocate.rs",
        original: "const LEAST_WAITING_EXTENDABLE: u64 = 8 << 20;",
        replacement: "const LEAST_WAITING_EXTENDABLE: u64 = 128 << 20;",
        breaks: "a pool over virtual memory splits other blocks while many bytes wait for an event",
    },
    Mutant {
        name: "whole-slab-stays-small",
        file: ZONES,
        original: "if zone == Zone::Large || size < self.slabs.bytes && (is_small(before) || is_small(after)) {",
        replacement: "if zone == Zone::Large || size < self.slabs.bytes * 64 {",
        breaks: "free slabs never become large memory again",
    },
    Mutant {
        name: "idle-part-of-a-slab-hides-a-piece",
        file: ZONES,
        original: "Zone::Large => joined.extend(neighbours(id)),",
        replacement: "Zone::Large => {}",
        breaks: "a piece that is partly a slab's stays",
    },
    Mutant {
        name: "exchanges-are-free",
        file: "crates/rmm-adaptors/src/pool/exchange.rs",
        original: "self.exchanged += pieces;",
        replacement: "",
        breaks: "a pool over virtual memory maps and unmaps without end",
    },
    Mutant {
        name: "growth-ahead-of-the-target",
        file: "crates/rmm-adaptors/src/pool/growth.rs",
        original: "(peak / SURPLUS_FRACTION).max(LEAST_SURPLUS)",
        replacement: "(peak / 2).max(LEAST_SURPLUS)",
        breaks: "a pool over virtual memory keeps half as much again as its program used",
    },
    Mutant {
        name: "merging-takes-the-older-point-after",
        file: HEAP,
        original: "(above, whole, point.max(freed))",
        replacement: "(above, whole, point.min(freed))",
        breaks: "a block merged with the one behind it counts as freed when the older was",
    },
    Mutant {
        name: "merging-takes-the-older-point-before",
        file: HEAP,
        original: "let mut point = point.max(freed);",
        replacement: "let mut point = point.min(freed);",
        breaks: "a block merged with the one before it counts as freed when the older was",
    },
    Mutant {
        name: "merging-with-both-forgets-one-point",
        file: HEAP,
        original: "self.merge_next(id);\n                    point = point.max(freed);",
        replacement: "self.merge_next(id);\n                    point = point.min(freed);",
        breaks: "a block merged with both neighbours counts as freed when the one behind was not yet",
    },
    Mutant {
        name: "first-block-of-a-segment-is-forgotten",
        file: HEAP,
        original: "None => self.segment_mut(segment).first = id,",
        replacement: "None => _ = self.segment_mut(segment),",
        breaks: "a segment begins with a record that another block uses",
    },
    Mutant {
        name: "resized-block-stays-in-its-bin",
        file: FREE_LIST,
        original: "if from != to {",
        replacement: "if from > to {",
        breaks: "a block that has grown is not found as what it is",
    },
    Mutant {
        name: "covered-search-takes-any-point",
        file: HEAP,
        original: "let is_covered = |point| point <= covered;",
        replacement: "let is_covered = |point| point <= covered || point > 0;",
        breaks: "another stream's blocks are taken whether covered or not",
    },
    Mutant {
        name: "pieces-in-use-go-back",
        file: PIECES,
        original: "matches!(node.state, NodeState::Free(ListId::ANY_STREAM, _))",
        replacement: "matches!(node.state, NodeState::Free(..))",
        breaks: "a piece goes back whose block is not clean",
    },
    Mutant {
        name: "pieces-in-part-go-back",
        file: PIECES,
        original: "inside.filter(move |&(offset, size)| offset + size <= end)",
        replacement: "inside.filter(move |&(offset, size)| offset + size <= end || size > &0)",
        breaks: "a piece counts as unused whose end is in use",
    },
    Mutant {
        name: "claims-what-others-use",
        file: EXTEND,
        original: "NodeState::Free(list, point) if usable(list, point) => part",
        replacement: "NodeState::Free(list, point) if usable(list, point) || point > 0 => part",
        breaks: "a block is extended into memory that another stream still uses",
    },
    Mutant {
        name: "rest-of-a-claim-is-clean",
        file: EXTEND,
        original: "if self.is_idle { (ListId::ANY_STREAM, 0) } else { used }",
        replacement: "if self.is_idle { (ListId::ANY_STREAM, 0) } else { (ListId::ANY_STREAM, used.1 * 0) }",
        breaks: "what is left of an extended block counts as never used",
    },
    Mutant {
        name: "used-part-of-a-claim-is-clean",
        file: EXTEND,
        original: "let used = start.saturating_sub(offset).max(size);",
        replacement: "let used = size;",
        breaks: "memory that a stream may still use goes to others as new, since it lies before new memory",
    },
    Mutant {
        name: "window-counts-gaps-it-has-left",
        file: WINDOW,
        original: "self.bytes -= part.size;\n        self.missing -= part.missing(part.size);",
        replacement: "self.bytes -= part.size;",
        breaks: "a pool extends its memory where more is missing than elsewhere",
    },
    Mutant {
        name: "closed-end-asked-for-again",
        file: EXTEND,
        original: "let is_at_end = end >= size && extension == Extension::Anywhere;",
        replacement: "let is_at_end = end >= size;",
        breaks: "addresses behind a segment that are known to be taken are requested again",
    },
    Mutant {
        name: "cleaning-takes-all",
        file: HEAP,
        original: "if point <= covered {",
        replacement: "if point <= covered || covered > 0 {",
        breaks: "once one block of a stream is done all are taken for done",
    },
    Mutant {
        name: "size-class-off-by-one",
        file: FREE_LIST,
        original: "if its_size >= size &&",
        replacement: "if its_size + 256 >= size &&",
        breaks: "blocks are handed out that are a granule too small",
    },
    Mutant {
        name: "size-class-skips-one",
        file: BINS,
        original: "Self((shift * SECOND + highest).min(BINS - 1))",
        replacement: "Self((shift * SECOND + highest % SECOND).min(BINS - 1))",
        breaks: "sizes of two doublings share their bins",
    },
    Mutant {
        name: "pieces-cleaned-without-completion",
        file: FUSE,
        original: "list != ListId::ANY_STREAM && point <= done(list);",
        replacement: "list != ListId::ANY_STREAM && (point <= done(list) || point > 0);",
        breaks: "pieces that work may still use go back upstream",
    },
    Mutant {
        name: "run-of-one-block-is-indexed",
        file: RUNS,
        original: "if next.offset + next.size < run.end {",
        replacement: "if next.offset + next.size <= run.end {",
        breaks: "the index of runs of free neighbours does not agree with the blocks",
    },
    Mutant {
        name: "oldest-block-of-a-list-is-forgotten",
        file: FREE_LIST,
        original: "self.oldest = self.oldest.min(point);",
        replacement: "self.oldest = point;",
        breaks: "a search passes by a list that has what it looks for",
    },
    Mutant {
        name: "slab-leaves-the-part-behind-it",
        file: ZONES,
        original: "&& its == list",
        replacement: "&& its != list",
        breaks: "free neighbours of one list stay apart where a slab ends with its block",
    },
    Mutant {
        name: "last-part-joins-no-large-block",
        file: ZONES,
        original: "        if far.is_none_or(|far| self.nodes.get(far).zone == Zone::Large) {\n            self.enlarge(id);",
        replacement: "        if far.is_none_or(|far| self.nodes.get(far).zone == Zone::Large) {\n            let (list, point) = self.delist(id);\n            self.nodes.get_mut(id).zone = Zone::Large;\n            self.enlist(id, list, point);",
        breaks: "free neighbours of one list stay apart where a slab was between large blocks",
    },
];
