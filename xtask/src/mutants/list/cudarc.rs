//! Mutants of the crates for programs of cudarc's, and for programs that stay as they are.

use crate::mutants::mutant::Mutant;

const ALLOCATIONS: &str = "crates/rmm-preload/src/allocations.rs";
const LEND_HOST: &str = "crates/rmm-interop-cudarc/src/line/lend_host.rs";
const LENT: &str = "crates/rmm-interop-cudarc/src/line/lent.rs";
const OWNED_SLICE: &str = "crates/rmm-interop-cudarc/src/line/owned_slice.rs";
const PRELOAD_EXPORTS: &str = "crates/rmm-preload/src/exports.rs";
const PRELOAD_STREAMS: &str = "crates/rmm-preload/src/streams.rs";
const STREAM: &str = "crates/rmm-interop-cudarc/src/line/stream.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "cudarc-any-stream-is-the-lent-one",
        file: STREAM,
        original: "if *other == *self.theirs {",
        replacement: "if true {",
        breaks: "work on another stream than memory was lent to is in no order",
    },
    Mutant {
        name: "cudarc-other-stream-does-not-wait",
        file: STREAM,
        original: "if other.join(&self.theirs).is_err() {",
        replacement: "if false {",
        breaks: "work on another stream than memory was lent to begins before that one is done",
    },
    Mutant {
        name: "cudarc-host-does-not-wait-for-another-stream",
        file: STREAM,
        original: "SyncOnDrop::sync_stream(other)",
        replacement: "SyncOnDrop::Sync(None)",
        breaks: "memory is freed under the work of another stream than it was lent to",
    },
    Mutant {
        name: "cudarc-no-event-means-no-wait",
        file: STREAM,
        original: "other.context().record_err(self.theirs.synchronize());",
        replacement: "other.context().record_err(Ok::<(), DriverError>(()));",
        breaks: "another stream waits for nothing if the driver has no event",
    },
    Mutant {
        name: "cudarc-stream-has-no-owner",
        file: STREAM,
        original: "Arc::<TheirStream>::clone(theirs))",
        replacement: "Arc::new(()))",
        breaks: "a stream of cudarc's is destroyed before the containers on it",
    },
    Mutant {
        name: "cudarc-context-stays-entered",
        file: STREAM,
        original: "let _code = unsafe { driver.cuCtxSetCurrent(self.before) };",
        replacement: "let _left = driver;",
        breaks: "adopting a stream of another context leaves that one current",
    },
    Mutant {
        name: "cudarc-context-is-not-entered",
        file: STREAM,
        original: "stream.context().bind_to_thread().map_err(|code| error(\"Stream::adopt\", code))?;",
        replacement: "let _unused = (stream, error);",
        breaks: "a stream is adopted for the context that happens to be current",
    },
    Mutant {
        name: "cudarc-reading-elsewhere-is-in-no-order",
        file: LENT,
        original: "fn device_ptr<'a>(&'a self, stream: &'a TheirStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {\n        (self.pointer, self.stream.order_for(stream))",
        replacement: "fn device_ptr<'a>(&'a self, _: &'a TheirStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {\n        (self.pointer, SyncOnDrop::Sync(None))",
        breaks: "an operand is read on another stream before it is written",
    },
    Mutant {
        name: "cudarc-host-memory-written-elsewhere-is-in-no-order",
        file: LEND_HOST,
        original: "let order = self.stream.order_for(stream);",
        replacement: "let order = SyncOnDrop::Sync(None);\n        let _ = stream;",
        breaks: "the host reads pinned memory while another stream than it was lent to writes it",
    },
    Mutant {
        name: "cudarc-slice-begins-unrecorded",
        file: OWNED_SLICE,
        original: "let (_, record) = slice.device_ptr_mut(stream.theirs());\n        drop(record);",
        replacement: "let _ = &mut slice;",
        breaks: "the first use on another stream comes before the allocation",
    },
    Mutant {
        name: "cudarc-vector-stays-on-its-stream",
        file: OWNED_SLICE,
        original: "memory.set_stream(stream)?;",
        replacement: "let _ = &mut memory;",
        breaks: "the memory of a slice is freed on a stream that does not know its uses",
    },
    Mutant {
        name: "cudarc-slice-frees-to-the-driver",
        file: OWNED_SLICE,
        original: "let pointer = unsafe { ManuallyDrop::take(&mut self.slice) }.leak();",
        replacement: "let pointer = self.memory.as_ptr().0;\n        drop(unsafe { ManuallyDrop::take(&mut self.slice) });",
        breaks: "the driver frees an address that a resource allocated",
    },
    Mutant {
        name: "cudarc-slice-goes-without-waiting",
        file: OWNED_SLICE,
        original: "        self.leak_slice();\n        // SAFETY: dropped here only",
        replacement: "        // SAFETY: dropped here only",
        breaks: "the memory of a slice is reused under the work of another stream",
    },
    Mutant {
        name: "cudarc-vector-comes-back-without-waiting",
        file: OWNED_SLICE,
        original: "        this.leak_slice();\n",
        replacement: "",
        breaks: "the vector of a slice is used before the work of another stream",
    },
    Mutant {
        name: "cudarc-slice-keeps-its-memory",
        file: OWNED_SLICE,
        original: "unsafe { ManuallyDrop::drop(&mut self.memory) };",
        replacement: "let _kept = &self.memory;",
        breaks: "the memory of a slice is never freed",
    },
    Mutant {
        name: "preload-unknown-address-is-freed",
        file: ALLOCATIONS,
        original: "let Some((_, block)) = LIVE.remove(&pointer) else { return Served::No };",
        replacement: "let Some((_, block)) = LIVE.remove(&pointer) else {\n        return Served::Yes(CuResult::SUCCESS);\n    };",
        breaks: "an address of the driver's is not freed, and a wrong one is no error",
    },
    Mutant {
        name: "preload-free-does-not-wait",
        file: ALLOCATIONS,
        original: "let code = unsafe { driver.cuCtxSynchronize() };",
        replacement: "let (code, _) = (CuResult::SUCCESS, driver);",
        breaks: "memory that is freed by `cuMemFree` is reused under the work of its stream",
    },
    Mutant {
        name: "preload-program-is-not-served",
        file: ALLOCATIONS,
        original: "LIVE.insert(pointer, block);\n            report",
        replacement: "let _unknown = block;\n            report",
        breaks: "an address of ours is given to the driver to free",
    },
    Mutant {
        name: "preload-streams-end-unnoticed",
        file: PRELOAD_STREAMS,
        original: "    CudaStream::forget_raw(handle);\n",
        replacement: "    let _never = handle;\n",
        breaks: "the end of a stream's work is looked for on the next stream of its handle",
    },
    Mutant {
        name: "preload-own-streams-are-one",
        file: PRELOAD_STREAMS,
        original: "let own = (stream == CuStream::PER_THREAD).then(|| {",
        replacement: "let own = (stream == CuStream::PER_THREAD && false).then(|| {",
        breaks: "a capture on a thread's own stream ends that of another thread for the pools",
    },
    Mutant {
        name: "preload-refused-end-ends-a-capture",
        file: PRELOAD_STREAMS,
        original: "    if !may_be_captured(driver, stream) {\n",
        replacement: "    if true || !may_be_captured(driver, stream) {\n",
        breaks: "memory of a graph is reused after the program tried to end its capture",
    },
    Mutant {
        name: "preload-capture-outlives-its-stream",
        file: PRELOAD_EXPORTS,
        original: "            capture = streams::take_capture(driver, stream);\n",
        replacement: "",
        breaks: "the driver is asked about captures for ever after a stream under capture was destroyed",
    },
];
