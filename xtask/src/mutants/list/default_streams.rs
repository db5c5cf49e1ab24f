//! Mutants of default streams, of streams that are gone, and of many.

use crate::mutants::mutant::Mutant;

const ALLOCATE: &str = "crates/rmm-adaptors/src/pool/allocate.rs";
const BUDGET: &str = "crates/rmm-adaptors/src/pool/caches/budget.rs";
const CACHE: &str = "crates/rmm-adaptors/src/pool/caches/cache.rs";
const FLUSH: &str = "crates/rmm-adaptors/src/pool/caches/flush.rs";
const CACHES: &str = "crates/rmm-adaptors/src/pool/caches.rs";
const CONTEXT: &str = "crates/rmm-adaptors/src/pool/timeline/context.rs";
const CORE: &str = "crates/rmm-adaptors/src/pool/core.rs";
const CROWD: &str = "crates/rmm-adaptors/src/pool/caches/crowd.rs";
const FEW: &str = "crates/rmm-adaptors/src/pool/heap/few.rs";
const LADDER: &str = "crates/rmm-adaptors/src/pool/ladder.rs";
const LISTS: &str = "crates/rmm-adaptors/src/pool/heap/lists.rs";
const PROBE: &str = "crates/rmm-adaptors/src/pool/probe.rs";
const REFILL: &str = "crates/rmm-adaptors/src/pool/refill.rs";
const SLOTS: &str = "crates/rmm-adaptors/src/pool/caches/slot.rs";
const STATE: &str = "crates/rmm-adaptors/src/pool/state.rs";
const TIMELINE: &str = "crates/rmm-adaptors/src/pool/timeline.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "context-event-before-it-is-complete",
        file: CONTEXT,
        original: "if !event.event.is_complete().unwrap_or(false) {",
        replacement: "if false {",
        breaks: "memory of other threads goes to any stream while their work uses it",
    },
    Mutant {
        name: "context-event-is-not-recorded",
        file: PROBE,
        original: "self.timeline.seal_context(false, CudaEvent::record_in_context)",
        replacement: "self.timeline.seal_context(false, |_| Ok(()))",
        breaks: "an event that was never recorded stands for the work of other threads",
    },
    Mutant {
        name: "context-event-covers-later-frees",
        file: CONTEXT,
        original: "covered.push(*list, slot.close_point());",
        replacement: "covered.push(*list, slot.close_point() + 1);",
        breaks: "what is freed after an event of the context counts as covered by it",
    },
    Mutant {
        name: "context-event-keeps-what-it-covered",
        file: CONTEXT,
        original: "if !is_full {\n                event.frontier.clear();\n            }",
        replacement: "",
        breaks: "an event on the legacy stream covers what the event was ordered after at its former record",
    },
    Mutant {
        name: "legacy-event-stands-for-unknown-streams",
        file: CONTEXT,
        original: "if is_of_legacy && slot.policy != RecordPolicy::PerThread {",
        replacement: "if is_of_legacy && slot.policy == RecordPolicy::PerThread {",
        breaks: "an event on the legacy stream stands for streams that do not block with it",
    },
    Mutant {
        name: "old-drivers-record-no-event-for-threads",
        file: PROBE,
        original: "error.code() == Some(CuResult::NOT_SUPPORTED) =>",
        replacement: "error.code() == Some(CuResult::NOT_INITIALIZED) =>",
        breaks: "before CUDA 12.5, other streams wait for the device to get memory of a thread's stream",
    },
    Mutant {
        name: "context-is-sealed-under-capture",
        file: PROBE,
        original: "if self.may_capture() {\n                return Err(Error::unsupported(\"pool\", \"a stream may be under capture\"));\n            }\n            let sealed",
        replacement: "let sealed",
        breaks: "an event of the context invalidates a capture",
    },
    Mutant {
        name: "legacy-event-under-capture",
        file: PROBE,
        original: "if is_captured || CaptureScope::is_announced() {",
        replacement: "if false {",
        breaks: "before CUDA 12.5, an event on the legacy stream invalidates a capture",
    },
    Mutant {
        name: "context-events-are-not-paid-for",
        file: CONTEXT,
        original: "self.context.frees >= self.slots_in_use() ||",
        replacement: "true ||",
        breaks: "each request that misses asks all streams whether they are captured",
    },
    Mutant {
        name: "old-drivers-are-asked-for-context-events-again",
        file: CONTEXT,
        original: "self.context.is_unsupported = true;",
        replacement: "self.context.is_unsupported = false;",
        breaks: "before CUDA 12.5, each new stream asks all others whether they are captured",
    },
    Mutant {
        name: "captured-stream-is-asked-in-its-turn",
        file: PROBE,
        original: "last.into_iter().chain(timeline.lists())",
        replacement: "last.into_iter().take(0).chain(timeline.lists())",
        breaks: "while a capture goes on, each new stream asks all others whether they are captured",
    },
    Mutant {
        name: "streams-that-lag-behind-are-all-polled",
        file: PROBE,
        original: "effort == Effort::Bounded && in_vain >= POLLED_IN_VAIN",
        replacement: "effort == Effort::Bounded && in_vain >= usize::MAX",
        breaks: "a request asks about all streams though nothing is complete",
    },
    Mutant {
        name: "growth-before-all-streams-are-polled",
        file: LADDER,
        original: "if may_grow { self.poll_rest() } else { None }",
        replacement: "if may_grow && false { self.poll_rest() } else { None }",
        breaks: "the pool grows though memory is free that other streams have done with",
    },
    Mutant {
        name: "neighbours-wait-for-all-streams",
        file: LADDER,
        original: "let owners = session.heap.owners_of_run(size)?;",
        replacement: "let owners: Vec<(ListId, _)> = session.heap.owners_of_run(size)?.into_iter().take(0).collect();",
        breaks: "a request waits for all streams where it needs the memory of two",
    },
    Mutant {
        name: "pass-over-lists-misses-one",
        file: LISTS,
        original: "self.occupied.swap(position, self.first);",
        replacement: "",
        breaks: "a list that holds blocks is not in the table of those, so its memory is out of reach",
    },
    Mutant {
        name: "ended-streams-await-no-context",
        file: TIMELINE,
        original: "if slot.unsealed_frees > 0 && !slot.awaits_context {\n            slot.awaits_context = true;\n            self.context.await_next(list);\n        }\n    }\n\n    /// Frees",
        replacement: "}\n\n    /// Frees",
        breaks: "memory of a stream that is gone is out of reach until the device is waited for",
    },
    Mutant {
        name: "legacy-memory-is-fenced-by-a-cut",
        file: TIMELINE,
        original: "slot.fenced.max(slot.done)",
        replacement: "slot.open - 1",
        breaks: "a wait for the device that failed stands for work on the legacy stream",
    },
    Mutant {
        name: "legacy-blocks-are-promoted-without-an-event",
        file: REFILL,
        original: "if is_fenced {\n            self.caches.promote(stream.id());\n        }",
        replacement: "self.caches.promote(stream.id());",
        breaks: "nothing stands between two uses on the legacy stream if no event could be recorded",
    },
    Mutant {
        name: "legacy-blocks-are-fenced-one-by-one",
        file: CACHE,
        original: "self.young_blocks >= FENCED_TOGETHER",
        replacement: "self.young_blocks > 0",
        breaks: "each allocation on the legacy stream records an event",
    },
    Mutant {
        name: "flush-makes-young-blocks-old",
        file: CACHE,
        original: "self.remove(class, counters).or_else(|| self.remove_young(class, counters))",
        replacement: "{\n                        self.promote();\n                        self.remove(class, counters)\n                    }",
        breaks: "what a flush leaves on the legacy stream is reused without an event",
    },
    Mutant {
        name: "legacy-blocks-wait-while-caches-are-flushed",
        file: ALLOCATE,
        original: "&& state.timeline.awaits_fence(list)\n            && self.fence(&mut state, stream, list)",
        replacement: "&& false",
        breaks: "a request on the legacy stream that waits for an event alone empties all caches first",
    },
    Mutant {
        name: "cached-legacy-blocks-wait-while-the-pool-grows",
        file: PROBE,
        original: "if list != ListId::ANY_STREAM && self.timeline.awaits_fence(list) {",
        replacement: "if false {",
        breaks: "what a flush leaves on the legacy stream is out of its reach: it takes more memory",
    },
    Mutant {
        name: "raw-handles-are-not-identified",
        file: CORE,
        original: "stream.id().get() & self.unclear_ids == 0",
        replacement: "stream.id().get() & self.unclear_ids & StreamId::OF_DEFAULT == 0",
        breaks: "a stream that reuses a handle gets memory that work of the former one uses",
    },
    Mutant {
        name: "busy-cache-changes-hands",
        file: SLOTS,
        original: "if self.calls_then.swap(calls, Ordering::Relaxed) == calls {",
        replacement: "if self.calls_then.swap(calls, Ordering::Relaxed) <= calls {",
        breaks: "threads that share a stream take its cache from each other",
    },
    Mutant {
        name: "idle-cache-stays",
        file: SLOTS,
        original: "Wanted::AndIdle\n        } else",
        replacement: "Wanted::AndBusy\n        } else",
        breaks: "a task that changes threads leaves its blocks behind",
    },
    Mutant {
        name: "legacy-cache-is-shared",
        file: CACHES,
        original: "is_shared = stream != StreamRef::legacy().id()\n                        && slots",
        replacement: "is_shared = slots",
        breaks: "a block that is freed on the legacy stream after an event is taken for one that was freed before",
    },
    Mutant {
        name: "crowded-caches-are-used",
        file: CROWD,
        original: "self.passes.store(PASSES, Ordering::Relaxed);",
        replacement: "",
        breaks: "hundreds of streams contend for the slots of caches",
    },
    Mutant {
        name: "poll-asks-all-streams",
        file: PROBE,
        original: "if polled % POLLED_TOGETHER == 0",
        replacement: "if false",
        breaks: "a request asks the driver about all streams although it has memory",
    },
    Mutant {
        name: "caches-without-a-budget",
        file: BUDGET,
        original: "(missing <= left).then_some(granted + missing.max(part))",
        replacement: "Some(granted + missing.max(part))",
        breaks: "the caches of many streams hold all of the pool",
    },
    Mutant {
        name: "grant-outlives-a-flush",
        file: FLUSH,
        original: "        self.budget.take_back(&header.counters.grant);\n",
        replacement: "",
        breaks: "each flush leaves less for caches, until there are none",
    },
    Mutant {
        name: "idle-cache-keeps-its-grant",
        file: FLUSH,
        original: "(was_idle || self.budget",
        replacement: "(self.budget",
        breaks: "streams that come later get no cache",
    },
    Mutant {
        name: "idle-stream-is-no-news",
        file: TIMELINE,
        original: "let mut frontier = std::mem::take(&mut slot.frontier);\n        self.note_news(list);",
        replacement: "let mut frontier = std::mem::take(&mut slot.frontier);",
        breaks: "a request does not see what another stream's completion has freed",
    },
    Mutant {
        name: "flushed-batch-is-no-news",
        file: STATE,
        original: "        self.timeline.note_news(batch.list);\n",
        replacement: "",
        breaks: "complete blocks that come back from the transfer cache are passed over",
    },
    Mutant {
        name: "few-blocks-too-small",
        file: FEW,
        original: "if wanted <= size &&",
        replacement: "if wanted <= size + 1 &&",
        breaks: "blocks of short lists are handed out that are a granule too small",
    },
];
