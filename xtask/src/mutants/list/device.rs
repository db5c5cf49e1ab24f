//! Mutants of the software device.

use crate::mutants::mutant::Mutant;

const ANNOTATIONS: &str = "crates/rmm-sim/src/calls/annotations.rs";
const BLOCK: &str = "crates/rmm-containers/src/block.rs";
const BYTES: &str = "crates/rmm-sim/src/api/bytes.rs";
const CHECKER: &str = "crates/rmm-sim/src/api/checker.rs";
const FAILURE: &str = "crates/rmm-sim/src/engine/failure.rs";
const PREFETCH: &str = "crates/rmm-sim/src/model/prefetch.rs";
const STRAYS: &str = "crates/rmm-sim/src/engine/strays.rs";
const CONTEXT: &str = "crates/rmm-sim/src/engine/context.rs";
const STREAM: &str = "crates/rmm-core/src/stream/owned.rs";
const STREAMS: &str = "crates/rmm-sim/src/model/streams.rs";
const SIGNATURE: &str = "crates/rmm-sim/src/model/signature.rs";
const KERNELS: &str = "crates/rmm-sim/src/model/kernels.rs";
const MODULE: &str = "crates/rmm-sim/src/calls/module.rs";
const GRAPHS: &str = "crates/rmm-sim/src/calls/capture.rs";
const PROC_ADDRESS: &str = "crates/rmm-sim-cuda/src/proc_address.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "stream-name-not-reported",
        file: STREAM,
        original: "            name_stream(self.inner.handle, &name);\n",
        replacement: "            let _ = name_stream;\n",
        breaks: "the checker's reports do not show a stream's name",
    },
    Mutant {
        name: "buffer-name-not-reported",
        file: BLOCK,
        original: "        Annotator::name_memory(self.pointer, self.layout.size(), Some(&name));\n",
        replacement: "",
        breaks: "the checker's reports do not show a buffer's name",
    },
    Mutant {
        name: "buffer-name-inherited",
        file: ANNOTATIONS,
        original: "&access);\n        self.checks.memory_names.remove(range);\n",
        replacement: "&access);\n",
        breaks: "memory that is allocated again has the name of its former owner in reports",
    },
    Mutant {
        name: "device-failure-not-sticky",
        file: FAILURE,
        original: "        self.devices[device].failed = Some(code);\n",
        replacement: "        let _ = code;\n",
        breaks: "a context goes on after a kernel of it has failed",
    },
    Mutant {
        name: "device-reset-keeps-memory",
        file: CONTEXT,
        original: "        state.end_allocations(context, by);\n",
        replacement: "",
        breaks: "memory outlives the reset of its context",
    },
    Mutant {
        name: "device-reset-leaves-races",
        file: CONTEXT,
        original: "        let known = self.clock_of_scope(scope);\n        self.join_host_clock_of(scope, &known);\n        let state",
        replacement: "        let state",
        breaks: "work of a context that was reset races with what comes after it",
    },
    Mutant {
        name: "device-reset-ends-created-contexts",
        file: CONTEXT,
        original: "if allocation.context != context || !self.is_of_context",
        replacement: "if allocation.device != device || !self.is_of_context",
        breaks: "memory of a created context ends with the primary context",
    },
    Mutant {
        name: "device-legacy-stream-of-all-contexts",
        file: STREAMS,
        original: "            before == Some(other.kind) && of.is_some_and(|(_, context)| other.context == context)\n",
        replacement: "            before == Some(other.kind) && of.is_some()\n",
        breaks: "races between contexts are hidden by the legacy default stream of one of them",
    },
    Mutant {
        name: "device-reads-what-is-borrowed",
        file: BYTES,
        original: "        let place = allocated(&state, pointer, target.len())?;\n        if !place.on_device_only() {",
        replacement: "        let place = allocated(&state, pointer, target.len())?;\n        if false {",
        breaks: "safe code reads memory that safe code writes at the same time",
    },
    Mutant {
        name: "device-strays-not-reported",
        file: STRAYS,
        original: "        strays.calls.push(Stray { thread: thread::number(), call });\n",
        replacement: "        let _ = (call, &mut strays.calls);\n",
        breaks: "a check passes although a thread's calls went to a machine that is not checked",
    },
    Mutant {
        name: "device-check-of-nothing",
        file: CHECKER,
        original: "strays.is_empty() && machine.calls() == 0",
        replacement: "strays.is_empty() && machine.calls() == u64::MAX",
        breaks: "a check of a program that calls no driver passes",
    },
    Mutant {
        name: "device-report-without-call-sites",
        file: CHECKER,
        original: "let sited = if has_sites { None }",
        replacement: "let sited = if has_sites || true { None }",
        breaks: "a report does not contain the call sites of the accesses",
    },
    Mutant {
        name: "device-prefetch-of-a-part",
        file: PREFETCH,
        original: "end <= at || found.is_some_and(|found| found != location)",
        replacement: "end <= at",
        breaks: "a range of which parts were prefetched to different places reports one location",
    },
    Mutant {
        name: "device-kernel-reads-are-writes",
        file: SIGNATURE,
        original: "(true, _) => Operation::Read,",
        replacement: "(true, _) => Operation::Write,",
        breaks: "two kernels that read one array race",
    },
    Mutant {
        name: "device-kernel-elements-are-bytes",
        file: KERNELS,
        original: "                .and_then(|count| count.checked_mul(parameter.size))\n                .ok_or",
        replacement: "                .ok_or",
        breaks: "a launch is judged by a part of what it accesses",
    },
    Mutant {
        name: "device-kernel-accesses-nothing",
        file: KERNELS,
        original: "            if bytes > 0 {\n                ranges.push",
        replacement: "            if false {\n                ranges.push",
        breaks: "a launch is not judged",
    },
    Mutant {
        name: "device-kernel-missing-in-silence",
        file: KERNELS,
        original: "            self.missing.insert(name.to_owned());\n",
        replacement: "",
        breaks: "no report names the kernel that was not found",
    },
    Mutant {
        name: "device-launch-of-any-size",
        file: MODULE,
        original: "grid.contains(&0) || threads == 0 || threads > MAX_THREADS",
        replacement: "false",
        breaks: "a launch succeeds that every GPU refuses",
    },
    Mutant {
        name: "device-module-after-its-end",
        file: MODULE,
        original: "        slot.filter(is_loaded).ok_or(CuResult::INVALID_HANDLE)",
        replacement: "        let _ = is_loaded;\n        slot.ok_or(CuResult::INVALID_HANDLE)",
        breaks: "a kernel is found in a module that was unloaded",
    },
    Mutant {
        name: "device-graph-flags-unchecked",
        file: GRAPHS,
        original: "        check_flags(flags)?;\n",
        replacement: "",
        breaks: "a graph is instantiated with flags that the driver refuses",
    },
    Mutant {
        name: "device-proc-address-of-another-version",
        file: PROC_ADDRESS,
        original: "changed == name && version < since",
        replacement: "changed == name && version > since",
        breaks: "a program of CUDA 12 calls a function with the signature of CUDA 13",
    },
];
