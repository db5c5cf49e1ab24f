//! The mutants of the pool's stream order and of the base resources.

pub(super) mod adaptors;
pub(super) mod backing;
pub(super) mod beside;
pub(super) mod caches;
pub(super) mod capi;
pub(super) mod containers;
pub(super) mod core;
pub(super) mod cudarc;
pub(super) mod default_streams;
pub(super) mod device;
pub(super) mod end;
pub(super) mod foreign;
pub(super) mod fresh;
pub(super) mod heap;
pub(super) mod lost;
pub(super) mod python;
pub(super) mod siblings;
pub(super) mod sleep;
pub(super) mod streams;

use super::mutant::Mutant;

const GROW: &str = "crates/rmm-adaptors/src/pool/grow.rs";
const SESSION: &str = "crates/rmm-adaptors/src/pool/session.rs";
const FREE: &str = "crates/rmm-adaptors/src/pool/free.rs";
const LADDER: &str = "crates/rmm-adaptors/src/pool/ladder.rs";
const PROBE: &str = "crates/rmm-adaptors/src/pool/probe.rs";
const SHRINK: &str = "crates/rmm-adaptors/src/pool/shrink.rs";
const STREAMS: &str = "crates/rmm-adaptors/src/pool/streams.rs";
const TIMELINE: &str = "crates/rmm-adaptors/src/pool/timeline.rs";
const SLOT: &str = "crates/rmm-adaptors/src/pool/timeline/slot.rs";
const SPACE: &str = "crates/rmm-resources/src/virtual_memory/space.rs";
const ADDRESSES: &str = "crates/rmm-resources/src/virtual_memory/addresses.rs";
const CORE: &str = "crates/rmm-adaptors/src/pool/core.rs";
const STATE: &str = "crates/rmm-adaptors/src/pool/state.rs";
const CAPABILITY: &str = "crates/rmm-resources/src/capability.rs";
const CUDA: &str = "crates/rmm-resources/src/cuda.rs";
const DRIVER_POOL: &str = "crates/rmm-resources/src/driver_pool.rs";
const MANAGED: &str = "crates/rmm-resources/src/managed.rs";
const PINNED: &str = "crates/rmm-resources/src/pinned_host.rs";
const SYSTEM: &str = "crates/rmm-resources/src/system.rs";

/// A free in stream order that does not wait for the stream.
const FREE_AT_ONCE: &str = "
    unsafe fn do_deallocate(&self, _: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        unsafe { self.deallocate_sync(pointer, layout) }
    }
";

/// Those of the pool and the base resources, by file.
pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "no-wait-after-stealing",
        file: TIMELINE,
        original: "wait(&event.event)?;",
        replacement: "let _never = (&wait, event);",
        breaks: "a stream that takes another's block is noted as waiting for it, and does not",
    },
    Mutant {
        name: "wait-for-an-older-event",
        file: TIMELINE,
        original: "frontier.raise(q, event.covers);",
        replacement: "frontier.raise(q, event.covers + 1);",
        breaks: "a stream counts as ordered after frees that came after the event that it waits for",
    },
    Mutant {
        name: "wait-taken-for-the-newest",
        file: TIMELINE,
        original: "frontier.raise(q, event.covers);",
        replacement: "frontier.raise(q, self.slots[q.index()].open);",
        breaks: "a wait counts for all that the other stream frees later, too",
    },
    Mutant {
        name: "wait-noted-for-the-wrong-list",
        file: TIMELINE,
        original: "frontier.raise(q, event.covers);",
        replacement: "(0..).zip(&self.slots).for_each(|(list, _)| frontier.raise(ListId(list), event.covers));",
        breaks: "a wait for one stream counts as one for all",
    },
    Mutant {
        name: "event-before-the-free",
        file: TIMELINE,
        original: "event.covers = slot.close_point();",
        replacement: "event.covers = slot.close_point() + 1;",
        breaks: "an event counts for the frees after it",
    },
    Mutant {
        name: "seal-does-not-move-the-point",
        file: SLOT,
        original: "self.open += 1;\n        self.unsealed_frees = 0;",
        replacement: "self.unsealed_frees = 0;",
        breaks: "what is freed after an event has the same point as what was freed before",
    },
    Mutant {
        name: "covered-takes-any-free",
        file: TIMELINE,
        original: "self.slots[q.index()].done.max(frontier)",
        replacement: "self.slots[q.index()].open.max(frontier)",
        breaks: "every free counts as covered",
    },
    Mutant {
        name: "covered-by-the-others-frontier",
        file: TIMELINE,
        original: "self.slots[s.index()].frontier.point(q)",
        replacement: "self.slots[q.index()].frontier.point(s)",
        breaks: "a stream may take what is freed on one that waited for it",
    },
    Mutant {
        name: "sync-allocation-from-unclean-blocks",
        file: TIMELINE,
        original: "if q == ListId::ANY_STREAM {\n            return Point::MAX;",
        replacement: "if q == ListId::ANY_STREAM || s == ListId::ANY_STREAM {\n            return Point::MAX;",
        breaks: "a block of any stream may still be in use by one stream",
    },
    Mutant {
        name: "unknown-is-complete",
        file: TIMELINE,
        original: "if !event.event.is_complete().unwrap_or(false) {",
        replacement: "if !event.event.is_complete().unwrap_or(true) {",
        breaks: "a driver that fails to answer counts as `complete`",
    },
    Mutant {
        name: "not-ready-is-complete",
        file: TIMELINE,
        original: "if !event.event.is_complete().unwrap_or(false) {",
        replacement: "if event.event.is_complete().is_err() {",
        breaks: "an event that is not reached yet counts as complete",
    },
    Mutant {
        name: "failed-record-covers",
        file: TIMELINE,
        original: "let recorded = record(&event.event);",
        replacement: "let recorded = record(&event.event).or(Ok(()));",
        breaks: "an event that could not be recorded counts as recorded",
    },
    Mutant {
        name: "full-queue-records-nothing",
        file: TIMELINE,
        original: "let recorded = record(&event.event);",
        replacement: "let recorded = if joins { Ok(()) } else { record(&event.event) };",
        breaks: "with many events outstanding further frees count as covered by the last of them",
    },
    Mutant {
        name: "device-wait-covers-later-frees",
        file: TIMELINE,
        original: "slot.open += 1;\n                (list, slot.open - 1)",
        replacement: "slot.open += 1;\n                (list, slot.open)",
        breaks: "what is freed during a wait for the device counts as waited for",
    },
    Mutant {
        name: "new-stream-in-a-used-slot-is-done",
        file: TIMELINE,
        original: "let done = open - 1;",
        replacement: "let done = open;",
        breaks: "the first blocks of a stream that reuses a slot go to any stream",
    },
    Mutant {
        name: "idle-of-one-is-idle-of-all",
        file: TIMELINE,
        original: "let slot = &mut self.slots[list.index()];\n        slot.done = slot.close_point();",
        replacement: "self.slots.iter_mut().for_each(|slot| slot.done = slot.open);\n        let slot = &mut self.slots[list.index()];\n        slot.done = slot.close_point();",
        breaks: "when one stream is found idle all are taken for idle",
    },
    Mutant {
        name: "recycled-while-in-use",
        file: TIMELINE,
        original: "if slot.pins > 0 || slot.is_spare {",
        replacement: "if slot.is_spare {",
        breaks: "the slot of a stream with a request in progress goes to another",
    },
    Mutant {
        name: "retired-stream-keeps-its-handle",
        file: TIMELINE,
        original: "slot.policy = RecordPolicy::Retired;\n        if slot.unsealed_frees",
        replacement: "if slot.unsealed_frees",
        breaks: "events are recorded on streams that are gone",
    },
    Mutant {
        name: "leaving-addresses-are-given-up",
        file: GROW,
        original: "may_be_leaving = others_called || self.others_call()",
        replacement: "may_be_leaving = others_called && false",
        breaks: "addresses that another thread releases count as foreign for ever",
    },
    Mutant {
        name: "stuck-mapping-is-used-again",
        file: SPACE,
        original: "if is_unmapped {\n            state.mapped_bytes",
        replacement: "if is_unmapped || bytes > 0 {\n            state.mapped_bytes",
        breaks: "addresses are handed out that the driver did not unmap",
    },
    Mutant {
        name: "reservations-merge",
        file: ADDRESSES,
        original: "&& !self.starts.contains(&start)\n",
        replacement: "\n",
        breaks: "a block lies across two reservations",
    },
    Mutant {
        name: "cleaning-without-completion",
        file: STATE,
        original: "self.heap.reclaim(list, done, most);",
        replacement: "self.heap.reclaim(list, self.timeline.open(list), most);",
        breaks: "blocks go to any stream before the device is done with them",
    },
    Mutant {
        name: "rest-of-a-fused-block-is-clean",
        file: STATE,
        original: "        if list == ListId::ANY_STREAM { 0 } else { self.timeline.open(list) }\n",
        replacement: "        if list == ListId::ANY_STREAM { 0 } else { 0 }\n",
        breaks: "what is left of blocks that were joined counts as never used",
    },
    Mutant {
        name: "fused-from-anything",
        file: STATE,
        original: "coalesce_across_streams(size, list, point, |other, freed| {\n            freed <= timeline.visible_to(list, other)\n",
        replacement: "coalesce_across_streams(size, list, point, |other, freed| {\n            freed <= timeline.visible_to(list, other) || freed > 0\n",
        breaks: "blocks are joined without waiting for their owners",
    },
    Mutant {
        name: "freed-at-the-point-before",
        file: STATE,
        original: "let point = self.open_point(list);\n        let bytes",
        replacement: "let point = if list == ListId::ANY_STREAM { 0 } else { self.timeline.done(list) };\n        let bytes",
        breaks: "a block counts as freed at a time that is known to be over",
    },
    Mutant {
        name: "address-not-aligned",
        file: STATE,
        original: "let address = (base.0 + block.offset + (alignment - 1)) & !(alignment - 1);",
        replacement: "let alignment = alignment.min(256);
        let address = (base.0 + block.offset + (alignment - 1)) & !(alignment - 1);",
        breaks: "alignments above 256 are ignored",
    },
    Mutant {
        name: "alignment-without-room",
        file: CORE,
        original: "let slack = (layout.align() as u64).saturating_sub(GRANULE);",
        replacement: "let slack = 0;",
        breaks: "an aligned block reaches into the next",
    },
    Mutant {
        name: "size-rounded-down",
        file: CORE,
        original: "(layout.size().max(1) as u64).checked_add(slack)?.checked_next_multiple_of(GRANULE)",
        replacement: "(layout.size() as u64).checked_add(slack).map(|size| (size / GRANULE).max(1) * GRANULE)",
        breaks: "a block is up to a granule shorter than asked for",
    },
    Mutant {
        name: "retirement-without-an-event",
        file: STREAMS,
        original: "let _unknown = state.timeline.seal(list, |event| stream.record(event));",
        replacement: "let _unknown = stream;",
        breaks: "what a stream freed before its end cannot be waited for",
    },
    Mutant {
        name: "retired-is-done",
        file: STREAMS,
        original: "state.timeline.retire(list);\n",
        replacement: "state.timeline.finish_all(list);\n        state.timeline.retire(list);\n",
        breaks: "a stream that is destroyed counts as one that is done",
    },
    Mutant {
        name: "forgets-streams-with-blocks",
        file: STREAMS,
        original: "if state.heap.is_empty(list) {\n                state.timeline.recycle(list);\n            }\n        }\n    }\n}",
        replacement: "if true {\n                state.timeline.recycle(list);\n            }\n        }\n    }\n}",
        breaks: "the place of a stream goes to another together with its blocks",
    },
    Mutant {
        name: "idle-blocking-stream-proves-all",
        file: STREAMS,
        original: "let idle_tells = stream.as_stream().is_non_blocking();",
        replacement: "let idle_tells = true;",
        breaks: "a blocking stream that is idle counts as proof for the legacy stream's work",
    },
    Mutant {
        name: "legacy-stream-is-sealed-late",
        file: STREAMS,
        original: "StreamKind::Legacy => RecordPolicy::Fenced,",
        replacement: "StreamKind::Legacy => RecordPolicy::OnDemand,",
        breaks: "nothing on the legacy stream stands between two blocking streams",
    },
    Mutant {
        name: "foreign-streams-are-sealed-late",
        file: STREAMS,
        original: "_ => RecordPolicy::Unknown,",
        replacement: "_ => RecordPolicy::OnDemand,",
        breaks: "events are recorded on streams that their owner may have destroyed",
    },
    Mutant {
        name: "foreign-device-without-waiting",
        file: FREE,
        original: "if wait_for_uses(stream).is_ok() {",
        replacement: "if true {",
        breaks: "memory freed on a stream of another device goes to any stream at once",
    },
    Mutant {
        name: "foreign-device-waits-for-the-stream-only",
        file: FREE,
        original: "if stream.as_stream().is_non_blocking() {",
        replacement: "if true {",
        breaks: "the legacy stream's work is not waited for with a blocking stream of another device",
    },
    Mutant {
        name: "trim-gives-back-too-much",
        file: SHRINK,
        original: "let goes = reserved - piece.size >= keep;",
        replacement: "let goes = reserved >= keep;",
        breaks: "trim goes below what is to be kept",
    },
    Mutant {
        name: "failed-idle-is-idle",
        file: PROBE,
        original: "unsafe { CudaStream::is_idle_raw(handle) }.unwrap_or(false)",
        replacement: "unsafe { CudaStream::is_idle_raw(handle) }.unwrap_or(true)",
        breaks: "a driver that fails to answer counts as `idle`",
    },
    Mutant {
        name: "device-wait-fails-unseen",
        file: SESSION,
        original: "resume_unwind(panic))?;",
        replacement: "resume_unwind(panic)).unwrap_or(());",
        breaks: "after a failed wait for the device all memory counts as free",
    },
    Mutant {
        name: "system-freed-without-waiting",
        file: SYSTEM,
        original: "    free_when_done!();\n",
        replacement: FREE_AT_ONCE,
        breaks: "ordinary memory is freed under the work of its stream",
    },
    Mutant {
        name: "pinned-freed-without-waiting",
        file: PINNED,
        original: "    free_when_done!();\n",
        replacement: FREE_AT_ONCE,
        breaks: "pinned memory is freed under the work of its stream",
    },
    Mutant {
        name: "managed-freed-without-waiting",
        file: MANAGED,
        original: "    free_when_done!();\n",
        replacement: FREE_AT_ONCE,
        breaks: "managed memory is freed under the work of its stream",
    },
    Mutant {
        name: "cuda-freed-without-the-other-device",
        file: CUDA,
        original: "asked.is_success() && told.is_success() && of_stream == of_memory",
        replacement: "asked.is_success() && told.is_success()",
        breaks: "memory freed on another device's stream is freed under its work",
    },
    Mutant {
        name: "driver-pool-allocates-elsewhere",
        file: DRIVER_POOL,
        original: "driver.cuMemAllocFromPoolAsync(&raw mut pointer, bytes, self.handle, stream.as_raw())",
        replacement: "driver.cuMemAllocFromPoolAsync(&raw mut pointer, bytes, self.handle, rmm_sys::CuStream::LEGACY)",
        breaks: "memory is allocated in the order of another stream",
    },
    Mutant {
        name: "driver-pool-frees-elsewhere",
        file: DRIVER_POOL,
        original: "driver.cuMemFreeAsync(pointer, stream.as_raw())",
        replacement: "driver.cuMemFreeAsync(pointer, rmm_sys::CuStream::LEGACY)",
        breaks: "memory is freed in the order of another stream",
    },
    Mutant {
        name: "driver-pool-allocates-without-waiting",
        file: DRIVER_POOL,
        original: "if let Err(error) = stream.synchronize() {",
        replacement: "if let Err(error) = stream.is_idle() {",
        breaks: "memory for any stream is usable on the legacy stream only",
    },
    Mutant {
        name: "driver-pool-frees-without-waiting",
        file: DRIVER_POOL,
        original: "let _reported_later = stream.synchronize();",
        replacement: "let _reported_later = stream.is_idle();",
        breaks: "a synchronous free returns before it has happened",
    },
    Mutant {
        name: "done-without-waiting",
        file: CAPABILITY,
        original: "match stream.synchronize() {\n        Ok(()) => true,",
        replacement: "match stream.is_idle() {\n        Ok(_) => true,",
        breaks: "whatever has no stream order is freed under its stream's work",
    },
    Mutant {
        name: "full-upstream-asked-for-ever",
        file: LADDER,
        original: "let may_succeed = retries <= MAX_RETRIES && (",
        replacement: "let may_succeed = (",
        breaks: "requests keep each other asking a full upstream",
    },
    Mutant {
        name: "full-upstream-asked-in-turns-for-ever",
        file: LADDER,
        original: "let others_decide = error.is_none()\n            && fits_but_for_others",
        replacement: "let others_decide = fits_but_for_others",
        breaks: "requests for the same room keep each other asking a full upstream",
    },
    Mutant {
        name: "waits-left-out-where-pages-are-added",
        file: LADDER,
        original: "outlook::extends_by_waiting(session.core",
        replacement: "false && outlook::extends_by_waiting(session.core",
        breaks: "a block that has to lie in new pages and what another stream freed is refused, or waits for the device",
    },
    Mutant {
        name: "arena-splits-before-it-merges",
        file: "crates/rmm-adaptors/src/pool/allocate.rs",
        original: "if state.merges_first && !for_graph",
        replacement: "if state.merges_first && false && !for_graph",
        breaks: "an arena whose memory is all idle is too fragmented for as much as it held before",
    },
    Mutant {
        name: "memory-goes-back-during-a-capture",
        file: SHRINK,
        original: "if session.may_capture() {",
        replacement: "if session.may_capture() && false {",
        breaks: "a capture is spoilt by a wait for the device",
    },
];
