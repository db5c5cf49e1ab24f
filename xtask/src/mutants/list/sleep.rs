//! Mutants of pools that sleep or clear blocks, of budgets, and of registered memory.

use crate::mutants::mutant::Mutant;

const SLEEP: &str = "crates/rmm-adaptors/src/pool/sleep.rs";
const SESSION: &str = "crates/rmm-adaptors/src/pool/session.rs";
const CORE: &str = "crates/rmm-adaptors/src/pool/core.rs";
const FREE: &str = "crates/rmm-adaptors/src/pool/free.rs";
const HOST_COPY: &str = "crates/rmm-adaptors/src/pool/host_copy.rs";
const BUILDER: &str = "crates/rmm-adaptors/src/pool/builder.rs";
const SUSPENDED: &str = "crates/rmm-resources/src/virtual_memory/space/suspended.rs";
const SPACE: &str = "crates/rmm-resources/src/virtual_memory/space.rs";
const BUDGET: &str = "crates/rmm-resources/src/budget.rs";
const AVAILABLE: &str = "crates/rmm-resources/src/budget/available.rs";
const CLEAR: &str = "crates/rmm-adaptors/src/pool/clear.rs";
const PAGES: &str = "crates/rmm-resources/src/registered_host/pages.rs";
const REGISTERED: &str = "crates/rmm-resources/src/registered_host.rs";

pub(in crate::mutants) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "sleep-waits-for-no-work",
        file: SLEEP,
        original: "session.try_wait_for_device()?;",
        replacement: "",
        breaks: "a pool unmaps memory that pending work uses",
    },
    Mutant {
        name: "sleep-during-a-capture",
        file: SLEEP,
        original: "if session.may_capture() {",
        replacement: "if session.may_capture() && false {",
        breaks: "a graph that is being captured loses its memory",
    },
    Mutant {
        name: "sleep-despite-graphs",
        file: SLEEP,
        original: "if !session.graph_blocks.is_empty() {",
        replacement: "if !session.graph_blocks.is_empty() && false {",
        breaks: "a graph is launched on memory of a pool that sleeps",
    },
    Mutant {
        name: "sleep-despite-pending-work",
        file: SLEEP,
        original: "if !waits && session.has_pending_work()? {",
        replacement: "if false {",
        breaks: "a program that asked not to wait waits",
    },
    Mutant {
        name: "sleep-waits-for-no-thread",
        file: SESSION,
        original: "session.away > 0, SHORT_CALL",
        replacement: "session.away > u32::MAX / 2, SHORT_CALL",
        breaks: "a request that is in the middle of growth maps memory while the pool sleeps",
    },
    Mutant {
        name: "sleep-keeps-caches",
        file: SLEEP,
        original: "core.flush_caches(session);",
        replacement: "",
        breaks: "threads get addresses without memory from their caches",
    },
    Mutant {
        name: "request-overlooks-sleep",
        file: CORE,
        original: "!sleeping_memory::sleeps(self.lock().upstream_ranges());",
        replacement: "true;",
        breaks: "what stands above a pool that sleeps hands out addresses without memory",
    },
    Mutant {
        name: "free-caches-while-asleep",
        file: FREE,
        original: "&& state.phase.is_awake()",
        replacement: "",
        breaks: "threads fill caches while the pool sleeps, and get addresses without memory from them",
    },
    Mutant {
        name: "failed-sleep-stays-half-way",
        file: SLEEP,
        original: "extendable.resume(&pieces).map(|()| {",
        replacement: "Ok::<(), Error>(()).map(|()| {",
        breaks: "a pool that could not fall asleep is awake, and lacks memory",
    },
    Mutant {
        name: "failed-wake-keeps-memory",
        file: SLEEP,
        original: "unsafe { suspend_each(extendable, &asleep.pieces) }",
        replacement: "Vec::new()",
        breaks: "a pool that could not wake up holds memory that others need",
    },
    Mutant {
        name: "contents-come-back-elsewhere",
        file: HOST_COPY,
        original: "let offset = part.offset + (from - part.address);",
        replacement: "let offset = part.offset;",
        breaks: "blocks hold each other's contents after a sleep in which some were freed",
    },
    Mutant {
        name: "suspending-loses-contents",
        file: SUSPENDED,
        original: "        state.suspended.insert(start.0, block);\n        Ok(())",
        replacement: "        state.suspended.insert(start.0, block);\n        drop(state);\n        let _released = self.release_retained(driver, start);\n        Ok(())",
        breaks: "a sleep that fails half-way has lost what the first blocks held",
    },
    Mutant {
        name: "suspended-block-freed-twice",
        file: SPACE,
        original: "self.state().suspended.remove(&start.0);\n        let was",
        replacement: "self.state().suspended.get(&start.0).copied();\n        let was",
        breaks: "addresses of a block that was freed while suspended are freed once more",
    },
    Mutant {
        name: "resumed-without-access",
        file: SUSPENDED,
        original: "        check(\"cuMemSetAccess\", code)?;",
        replacement: "        check(\"cuMemSetAccess\", code).unwrap_or(());",
        breaks: "a block counts as usable although no device may access it",
    },
    Mutant {
        name: "budget-ignores-control-groups",
        file: AVAILABLE,
        original: ".fold(of_system, u64::min)",
        replacement: ".fold(of_system, |system, _| system)",
        breaks: "a process in a container pins more memory than it may have, and is killed",
    },
    Mutant {
        name: "budget-of-an-integrated-device",
        file: BUDGET,
        original: "attribute(device, CuDeviceAttribute::INTEGRATED)? == 0",
        replacement: "attribute(device, CuDeviceAttribute::INTEGRATED)? < 2",
        breaks: "a pool of an integrated device is as small as the page cache is large",
    },
    Mutant {
        name: "larger-limit-counts",
        file: BUILDER,
        original: "budget.into_iter().chain(maximum_size).min()",
        replacement: "budget.into_iter().chain(maximum_size).max()",
        breaks: "a pool grows beyond one of its two limits",
    },
    Mutant {
        name: "blocks-without-a-stream-stay-dirty",
        file: CLEAR,
        original: "if self.clears { self",
        replacement: "if self.clears && stream.is_some() { self",
        breaks: "a tenant that allocates without a stream reads what another has left",
    },
    Mutant {
        name: "uncleared-block-is-lost",
        file: CLEAR,
        original: "cleared.inspect_err(|_| self.deallocate(Some(stream), pointer, layout))",
        replacement: "cleared",
        breaks: "a block that could not be cleared is never free again",
    },
    Mutant {
        name: "block-is-cleared-too-late",
        file: CLEAR,
        original: "stream.synchronize().inspect_err(behind_it)",
        replacement: "Ok(()).inspect_err(behind_it)",
        breaks: "a block that any stream may use at once is being cleared still",
    },
    Mutant {
        name: "small-pages-are-shared",
        file: PAGES,
        original: "let page = if block.size() >= HUGE { HUGE } else { PAGE };",
        replacement: "let page = 256;",
        breaks: "two registered blocks lie on one page",
    },
    Mutant {
        name: "registered-page-is-freed",
        file: REGISTERED,
        original: "                pages.keep();\n                Ok(pointer)",
        replacement: "                Ok(pointer)",
        breaks: "devices write to memory that the program's allocator has again",
    },
];
