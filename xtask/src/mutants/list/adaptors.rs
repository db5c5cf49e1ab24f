//! Mutants of the adaptors.

use crate::mutants::mutant::Mutant;

const ALIGNED: &str = "crates/rmm-adaptors/src/aligned.rs";
const BLOCKS: &str = "crates/rmm-adaptors/src/blocks.rs";
const TRACKING_TABLE: &str = "crates/rmm-adaptors/src/tracking/table.rs";
const CALLBACK: &str = "crates/rmm-adaptors/src/callback.rs";
const COUNTERS: &str = "crates/rmm-adaptors/src/statistics/counters.rs";
const FAILURE_CALLBACK: &str = "crates/rmm-adaptors/src/failure_callback.rs";
const FALLBACK: &str = "crates/rmm-adaptors/src/fallback.rs";
const LIMITING: &str = "crates/rmm-adaptors/src/limiting.rs";
const LINE: &str = "crates/rmm-adaptors/src/logging/line.rs";
const LOGGING: &str = "crates/rmm-adaptors/src/logging.rs";
const SINKS: &str = "crates/rmm-adaptors/src/logging/sinks.rs";
const PREFETCH: &str = "crates/rmm-adaptors/src/prefetch.rs";
const TAG: &str = "crates/rmm-adaptors/src/tagged/tag.rs";
const TAGGED: &str = "crates/rmm-adaptors/src/tagged.rs";
const THREAD_SAFE: &str = "crates/rmm-adaptors/src/thread_safe.rs";
const TRACKING: &str = "crates/rmm-adaptors/src/tracking.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "limit-kept-after-a-failure",
        file: LIMITING,
        original: "inspect_err(|_| self.release(padded))",
        replacement: "inspect_err(|_| self.release(padded & 0))",
        breaks: "a request that upstream refuses counts against the limit for ever",
    },
    Mutant {
        name: "limit-not-reached",
        file: LIMITING,
        original: "filter(|&sum| sum <= self.most())",
        replacement: "filter(|&sum| sum < self.most())",
        breaks: "the last bytes of a limit are refused",
    },
    Mutant {
        name: "limit-without-padding",
        file: LIMITING,
        original: "rounded_up(layout, self.alignment)",
        replacement: "rounded_up(layout, self.alignment.min(1))",
        breaks: "a limit counts less than what blocks take up",
    },
    Mutant {
        name: "statistics-peak-lost",
        file: COUNTERS,
        original: "self.peak = self.peak.max(self.value.saturating_add(part.peak));",
        replacement: "self.peak = self.peak.max(part.peak);",
        breaks: "the peak of a part is taken for that of the whole",
    },
    Mutant {
        name: "statistics-pop-loses-the-frees",
        file: COUNTERS,
        original: "self.value = self.value.saturating_add(part.value);",
        replacement: "self.value = self.value.saturating_add(part.value.max(0));",
        breaks: "what a part frees of others' memory is forgotten",
    },
    Mutant {
        name: "tracking-counts-the-wrong-size",
        file: TRACKING_TABLE,
        original: "self.bytes.subtract(block.layout.size() as u64);",
        replacement: "self.bytes.subtract(layout.size() as u64);",
        breaks: "a free with the wrong size leaves the sum wrong",
    },
    Mutant {
        name: "tracking-frees-as-told",
        file: TRACKING,
        original: "self.check_free(pointer, layout).unwrap_or(layout)",
        replacement: "self.check_free(pointer, layout).map_or(layout, |_| layout)",
        breaks: "a free with the wrong size reaches upstream with that size",
    },
    Mutant {
        name: "tracking-forgets-after-the-free",
        file: TRACKING,
        original: "self.check_free(pointer, layout).unwrap_or(layout);\n",
        replacement: "self.check_free(pointer, layout).unwrap_or(layout);\n            if allocated == layout {\n                self.insert(pointer, layout);\n                // SAFETY: none: a mutant.\n                unsafe { upstream.deallocate(pointer, layout) };\n                self.check_free(pointer, layout);\n                return;\n            }\n",
        breaks: "an address that another thread gets in between is taken for tracked",
    },
    Mutant {
        name: "blocks-last-lost",
        file: BLOCKS,
        original: "            self.others.insert(pointer, value);\n",
        replacement: "            let _lost = (pointer, value);\n",
        breaks: "of two blocks that one thread has, the first is forgotten",
    },
    Mutant {
        name: "blocks-last-not-handed-over",
        file: BLOCKS,
        original: "self.others.into_iter().chain(self.last)",
        replacement: "self.others.into_iter().chain(None)",
        breaks: "the last block before a second thread comes is forgotten",
    },
    Mutant {
        name: "blocks-last-taken-twice",
        file: BLOCKS,
        original: "if *last == pointer {",
        replacement: "if *last == pointer && self.others.contains_key(last) {",
        breaks: "an address that upstream hands out twice in a row is taken for two blocks",
    },
    Mutant {
        name: "aligned-moved-blocks-not-counted",
        file: ALIGNED,
        original: "self.moved_count.store(moved.len(), Ordering::Relaxed);",
        replacement: "self.moved_count.store(moved.len() / 2, Ordering::Relaxed);",
        breaks: "upstream is given an address that it never handed out, if one block alone was moved",
    },
    Mutant {
        name: "aligned-block-freed-where-it-lies",
        file: ALIGNED,
        original: "moved.remove(aligned)).unwrap_or(aligned)",
        replacement: "moved.remove(aligned)).map_or(aligned, |_| aligned)",
        breaks: "upstream is given an address that it never handed out",
    },
    Mutant {
        name: "aligned-block-without-room",
        file: ALIGNED,
        original: "rounded_up(layout, alignment) + (alignment - CUDA_ALLOCATION_ALIGNMENT)",
        replacement: "rounded_up(layout, alignment) + (alignment - alignment)",
        breaks: "an aligned block reaches beyond upstream's",
    },
    Mutant {
        name: "aligned-below-the-threshold",
        file: ALIGNED,
        original: "if layout.size() >= self.threshold { self.alignment }",
        replacement: "if layout.size() > self.threshold { self.alignment }",
        breaks: "a block of the threshold's size is not aligned",
    },
    Mutant {
        name: "callback-misaligned-block-kept",
        file: CALLBACK,
        original: "        if !is_pointer_aligned(pointer, layout.align()) {\n            self.free(stream, pointer, layout);\n",
        replacement: "        if !is_pointer_aligned(pointer, layout.align()) {\n",
        breaks: "memory that a function aligned badly is lost",
    },
    Mutant {
        name: "callback-sync-not-waited-for",
        file: CALLBACK,
        original: "        if let Err(error) = stream.synchronize() {\n            self.free",
        replacement: "        if let Err(error) = Ok::<(), Error>(()) {\n            self.free",
        breaks: "memory for every stream is allocated while work on it still runs",
    },
    Mutant {
        name: "failure-callback-once-too-often",
        file: FAILURE_CALLBACK,
        original: "attempt.get() <= self.max_retries {",
        replacement: "attempt.get() <= self.max_retries + 1 {",
        breaks: "a request is retried more often than it may be",
    },
    Mutant {
        name: "failure-callback-for-any-error",
        file: FAILURE_CALLBACK,
        original: "while self.kinds.contains(&error.kind()) && ",
        replacement: "while ",
        breaks: "the function is asked about errors that it can do nothing about",
    },
    Mutant {
        name: "thread-safe-frees-anyway",
        file: THREAD_SAFE,
        original: "not_waited_for(|| self.0.with(|()| free()));",
        replacement: "not_waited_for(free);",
        breaks: "a free is in upstream together with another call",
    },
    Mutant {
        name: "thread-safe-allocates-anyway",
        file: THREAD_SAFE,
        original: "|| self.0.with(|()| allocate()))",
        replacement: "|| allocate())",
        breaks: "an allocation is in upstream together with another call",
    },
    Mutant {
        name: "prefetch-failure-loses-the-block",
        file: PREFETCH,
        original: "                unsafe { upstream.deallocate(pointer, layout) };\n                Err(error)",
        replacement: "                let _ = |below: &dyn Fn()| below();\n                Err(error)",
        breaks: "a block whose prefetch fails is lost",
    },
    Mutant {
        name: "prefetch-on-the-wrong-stream",
        file: PREFETCH,
        original: "Some(stream) => to_current_device(pointer, layout.size(), stream),",
        replacement: "Some(_) => to_current_device(pointer, layout.size(), StreamRef::legacy()),",
        breaks: "a block is moved outside the order of its stream",
    },
    Mutant {
        name: "fallback-for-any-error",
        file: FALLBACK,
        original: "Err(error) if error.is_out_of_memory() =>",
        replacement: "Err(error) if error.is_out_of_memory() || true =>",
        breaks: "the second resource hides what is wrong with the first",
    },
    Mutant {
        name: "fallback-block-not-noted",
        file: FALLBACK,
        original: "        fork::lock(&self.pointers).insert(pointer);\n",
        replacement: "",
        breaks: "a block of the second resource is freed to the first",
    },
    Mutant {
        name: "fallback-block-remembered",
        file: FALLBACK,
        original: "fork::lock(&self.pointers).remove(&pointer);",
        replacement: "fork::lock(&self.pointers).contains(&pointer);",
        breaks: "a block of the first resource, where one of the second was, is freed to the second",
    },
    Mutant {
        name: "tag-of-the-free",
        file: TAGGED,
        original: "        if let Some(tag) = self.table.remove(pointer) {\n",
        replacement: "        if let Some(_) = self.table.remove(pointer) {\n            let tag = Tag::current();\n",
        breaks: "a block counts as freed by the thread that frees it",
    },
    Mutant {
        name: "tag-left-open",
        file: TAG,
        original: "        CURRENT.set(self.before);\n",
        replacement: "        CURRENT.set(Tag::UNTAGGED);\n",
        breaks: "what follows a tag within a tag has no tag",
    },
    Mutant {
        name: "log-after-the-free",
        file: LOGGING,
        original: "        self.line(Action::Free, pointer, layout, upstream);\n        // SAFETY: the caller's contract is the same.\n        unsafe { upstream.deallocate(pointer, layout) }\n",
        replacement: "        // SAFETY: the caller's contract is the same.\n        unsafe { upstream.deallocate(pointer, layout) };\n        self.line(Action::Free, pointer, layout, upstream);\n",
        breaks: "an address seems to be handed out twice at once",
    },
    Mutant {
        name: "log-lets-a-panic-out",
        file: SINKS,
        original: "            let written = catch_unwind(AssertUnwindSafe(|| {\n                sink.write_all(line)?;\n                if flushes { sink.flush() } else { Ok(()) }\n            }));\n",
        replacement: "            let mut write = || {\n                sink.write_all(line)?;\n                if flushes { sink.flush() } else { Ok(()) }\n            };\n            let written = std::thread::Result::<io::Result<()>>::Ok(write());\n",
        breaks: "a writer's panic takes memory along",
    },
    Mutant {
        name: "log-of-no-failures",
        file: LOGGING,
        original: "            Err(_) => self.line(Action::Failure, DevicePtr::NULL, layout, upstream),\n",
        replacement: "            Err(_) => {}\n",
        breaks: "a log does not show what was refused",
    },
    Mutant {
        name: "log-with-another-null",
        file: LINE,
        original: "line.hexadecimal(pointer.0, \"(nil)\")",
        replacement: "line.hexadecimal(pointer.0, \"0x0\")",
        breaks: "a log is not RMM's",
    },
    Mutant {
        name: "log-lost-at-exit",
        file: SINKS,
        original: "            log.flush_unless_locked();\n",
        replacement: "            drop(log);\n",
        breaks: "the last lines of a log that is never dropped are lost",
    },
    Mutant {
        name: "log-header-late",
        file: SINKS,
        original: "            sink.flush()?;\n        }\n        fork::watch",
        replacement: "        }\n        fork::watch",
        breaks: "a log without lines has no header",
    },
    Mutant {
        name: "failure-callback-forgets-kinds",
        file: FAILURE_CALLBACK,
        original: "        self.kinds.extend(kinds);\n",
        replacement: "        self.kinds = kinds.into_iter().collect();\n",
        breaks: "a second call replaces the kinds of the first",
    },
];
