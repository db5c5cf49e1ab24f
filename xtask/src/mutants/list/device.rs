//! Mutants of the software device.

use crate::mutants::mutant::Mutant;

const BYTES: &str = "crates/rmm-sim/src/bytes.rs";
const CHECKER: &str = "crates/rmm-sim/src/checker.rs";
const CURRENT: &str = "crates/rmm-sim/src/current.rs";
const PREFETCH: &str = "crates/rmm-sim/src/prefetch.rs";
const CONTEXT: &str = "crates/rmm-sim/src/context.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "device-failure-not-sticky",
        file: CONTEXT,
        original: "        self.devices[device].failed = Some(code);\n",
        replacement: "        let _ = code;\n",
        breaks: "a context goes on after a kernel of it has failed",
    },
    Mutant {
        name: "device-reset-keeps-memory",
        file: CONTEXT,
        original: "        state.end_allocations(device, by);\n",
        replacement: "",
        breaks: "memory outlives the reset of its context",
    },
    Mutant {
        name: "device-reset-leaves-races",
        file: CONTEXT,
        original: "        let known = self.knowledge_of_device(device);\n        self.host_learns_device(device, &known);\n        let state",
        replacement: "        let state",
        breaks: "work of a context that was reset races with what comes after it",
    },
    Mutant {
        name: "device-reads-what-is-borrowed",
        file: BYTES,
        original: "        let place = allocated(&state, pointer, target.len())?;\n        if !place.on_device_only() {",
        replacement: "        let place = allocated(&state, pointer, target.len())?;\n        if false {",
        breaks: "safe code reads memory that safe code writes at the same time",
    },
    Mutant {
        name: "device-strays-not-told",
        file: CURRENT,
        original: "            calls.push((thread(), call));\n",
        replacement: "            let _ = (call, calls);\n",
        breaks: "a check passes although a thread's calls went to a machine that nobody checks",
    },
    Mutant {
        name: "device-check-of-nothing",
        file: CHECKER,
        original: "strays.is_empty() && machine.calls() == 0",
        replacement: "strays.is_empty() && machine.calls() == u64::MAX",
        breaks: "a check of a program that calls no driver passes",
    },
    Mutant {
        name: "device-report-without-places",
        file: CHECKER,
        original: "let sited = if has_sites { None }",
        replacement: "let sited = if has_sites || true { None }",
        breaks: "a report does not say where in the program the accesses were asked for",
    },
    Mutant {
        name: "device-prefetch-of-a-part",
        file: PREFETCH,
        original: "end <= at || found.is_some_and(|found| found != location)",
        replacement: "end <= at",
        breaks: "a range of which parts were prefetched to different places tells one place",
    },
];
