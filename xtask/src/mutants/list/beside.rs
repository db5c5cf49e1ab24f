//! Mutants of the crates for tensors of other libraries and for futures.

use crate::mutants::mutant::Mutant;

const COMPLETION: &str = "crates/rmm-async/src/completion.rs";
const DLPACK_EXPORT: &str = "crates/rmm-interop-dlpack/src/export.rs";
const DLPACK_IMPORT: &str = "crates/rmm-interop-dlpack/src/import.rs";
const HOST_FUNCTION: &str = "crates/rmm-async/src/host_function.rs";
const KEEP: &str = "crates/rmm-async/src/keep.rs";
const SIGNAL: &str = "crates/rmm-async/src/signal.rs";
const WATCHER: &str = "crates/rmm-async/src/watcher.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "dlpack-consumer-does-not-wait",
        file: DLPACK_EXPORT,
        original: "Ready::On(stream) => self.set_stream(stream)?,",
        replacement: "Ready::On(_) => self.wait_for_other_streams()?,",
        breaks: "the consumer uses a tensor before it is ready, and it is freed under its work",
    },
    Mutant {
        name: "dlpack-host-memory-not-waited-for",
        file: DLPACK_EXPORT,
        original: "Ready::On(stream) => drop(vector.device_slice_mut().use_on(stream)?),",
        replacement: "Ready::On(_) => {}",
        breaks: "the consumer uses pinned memory before it is ready, and it is freed under its work",
    },
    Mutant {
        name: "dlpack-deleter-does-not-wait",
        file: DLPACK_IMPORT,
        original: "last.synchronize().is_ok()",
        replacement: "true",
        breaks: "the producer reuses a tensor under the work of its consumer",
    },
    Mutant {
        name: "dlpack-deleter-ends-a-capture",
        file: DLPACK_IMPORT,
        original: "matches!(last.is_capturing(), Ok(false)) && last",
        replacement: "last",
        breaks: "dropping an imported tensor invalidates a capture",
    },
    Mutant {
        name: "async-captured-stream-not-refused",
        file: COMPLETION,
        original: "if !stream.is_capturing()? {",
        replacement: "if true {",
        breaks: "a future waits for work that is part of a graph",
    },
    Mutant {
        name: "async-task-dropped-in-a-host-function",
        file: HOST_FUNCTION,
        original: "discard(waker);",
        replacement: "drop(waker);\n        let _ = discard;",
        breaks: "a task frees its memory on a thread of the driver, where that is forbidden",
    },
    Mutant {
        name: "async-buffers-dropped-with-the-future",
        file: KEEP,
        original: "} else if !self.completion.place().is_over() {",
        replacement: "} else if false {",
        breaks: "a buffer is freed while a copy writes it",
    },
    Mutant {
        name: "async-buffers-freed-at-exit",
        file: KEEP,
        original: "if process_is_exiting() {",
        replacement: "if false {",
        breaks: "a future that is dropped at process exit calls a driver that may be gone",
    },
    Mutant {
        name: "async-wake-up-lost",
        file: SIGNAL,
        original: "if state.is_reached {",
        replacement: "if false {",
        breaks: "a task waits for a host function that ran before",
    },
    Mutant {
        name: "async-query-ends-a-capture",
        file: WATCHER,
        original: "let _relaxed = RelaxedCapture::enter();\n        self.event",
        replacement: "self.event",
        breaks: "polling a future invalidates the capture of another thread",
    },
    Mutant {
        name: "async-abandoned-buffers-dropped-early",
        file: WATCHER,
        original: ".partition(|abandoned| abandoned.place.is_over());",
        replacement: ".partition(|_| true);",
        breaks: "a buffer of a dropped future is freed while a copy writes it",
    },
    Mutant {
        name: "async-faults-wake-no-task",
        file: WATCHER,
        original: "if !matches!(place.event.is_complete(), Ok(false)) {",
        replacement: "if matches!(place.event.is_complete(), Ok(true)) {",
        breaks: "a task waits for a device that failed",
    },
    Mutant {
        name: "dlpack-shape-of-any-size",
        file: DLPACK_EXPORT,
        original: "if elements == len {",
        replacement: "if true {",
        breaks: "a tensor has more elements than the memory of its container",
    },
    Mutant {
        name: "dlpack-strides-are-ignored",
        file: DLPACK_IMPORT,
        original: "if !is_row_major(shape, strides) {",
        replacement: "if false {",
        breaks: "a transposed or sparse tensor is read as one that is compact",
    },
    Mutant {
        name: "dlpack-offset-is-ignored",
        file: DLPACK_IMPORT,
        original: ".checked_add(dl_tensor.byte_offset)",
        replacement: ".checked_add(0)",
        breaks: "a view of a tensor is taken for the tensor",
    },
    Mutant {
        name: "dlpack-elements-of-any-type",
        file: DLPACK_IMPORT,
        original: "if tensor.dtype == T::DATA_TYPE {",
        replacement: "if true {",
        breaks: "a tensor is read as elements of another size, beyond its end",
    },
    Mutant {
        name: "dlpack-memory-of-another-device",
        file: DLPACK_IMPORT,
        original: "if usize::try_from(device.device_id) == Ok(ordinal) {",
        replacement: "if true {",
        breaks: "memory of one device is used on a stream of another",
    },
    Mutant {
        name: "dlpack-read-only-tensor-is-written",
        file: DLPACK_IMPORT,
        original: "if self.is_read_only { Err(self) }",
        replacement: "if false { Err(self) }",
        breaks: "what a producer shares for reading is written",
    },
    Mutant {
        name: "dlpack-wait-ends-the-capture-of-another-thread",
        file: DLPACK_IMPORT,
        original: "let _relaxed = RelaxedCapture::enter();\n        if",
        replacement: "if",
        breaks: "dropping an imported tensor invalidates the capture of another thread",
    },
    Mutant {
        name: "async-panic-of-a-waker-leaves-a-host-function",
        file: HOST_FUNCTION,
        original: "catch(|| waker.wake_by_ref());",
        replacement: "waker.wake_by_ref();",
        breaks: "a waker that panics aborts the process",
    },
    Mutant {
        name: "async-watched-events-stay",
        file: WATCHER,
        original: "let place = lock().watched.remove(&self.0);",
        replacement: "let place = lock().watched.get(&self.0).cloned();",
        breaks: "each future leaves an event, which the watcher queries for good",
    },
    Mutant {
        name: "async-failed-query-counts-as-over",
        file: WATCHER,
        original: "Err(error) => error.is_context_lost() || error.code().is_none_or(CuResult::is_sticky),",
        replacement: "Err(_) => true,",
        breaks: "a buffer is freed while a copy writes it, because a query failed",
    },
];
